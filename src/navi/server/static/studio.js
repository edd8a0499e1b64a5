// Forms are sent without loading the page again; keys press buttons; reasons are fetched when they are opened.
// Without this file every form and link works all the same.
"use strict";

const replacePage = async (answer, focus) => {
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!page.querySelector("#main")) { location.reload(); return; }
  document.querySelector(".top").replaceWith(page.querySelector(".top"));
  document.querySelector("#main").replaceWith(page.querySelector("#main"));
  const cards = [...document.querySelectorAll(".card")];
  if (focus !== null && cards.length) cards[Math.min(focus, cards.length - 1)].focus({ preventScroll: true });
};

let busy = false;
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  event.preventDefault();
  if (busy) return;
  busy = true;
  const card = form.closest(".card");
  const focus = card ? [...document.querySelectorAll(".card")].indexOf(card) : null;
  const button = event.submitter || form.querySelector("button[name=act]");
  try {
    const body = new URLSearchParams(new FormData(form));
    body.set(button.name, button.value);
    await replacePage(await fetch(form.action, { method: "POST", body }), focus);
  } catch {
    document.querySelector(".message").textContent = "The studio does not answer. Is it still running?";
  } finally {
    busy = false;
  }
});

document.addEventListener("toggle", async (event) => {
  const source = event.target.dataset?.src;
  if (!source || !event.target.open || event.target.dataset.loaded) return;
  event.target.dataset.loaded = "yes";
  const holder = document.createElement("div");
  const answer = await fetch(source);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  holder.append(...page.body.childNodes);
  event.target.append(holder);
}, true);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { document.activeElement.blur(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const cards = [...document.querySelectorAll(".card")];
  const card = document.activeElement.closest(".card");
  if (event.key === "j" || event.key === "k") {
    const next = cards.indexOf(card) + (event.key === "j" ? 1 : -1);
    cards[Math.max(0, Math.min(next, cards.length - 1))]?.focus();
    card && event.preventDefault();
    return;
  }
  const name = CSS.escape(event.key);
  const target = card?.querySelector(`[data-card-key="${name}"]`) || document.querySelector(`[data-key="${name}"]`);
  if (!target) return;
  event.preventDefault();
  if (target.tagName === "INPUT") { target.focus(); target.select(); } else target.click();
});
