// Forms are sent without loading the page again; keys press buttons; parts are fetched when they are opened.
// Without this file every form and link works all the same.
"use strict";

const list = (selector, root = document) => [...root.querySelectorAll(selector)];

async function replacePage(answer, focus) {
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!page.querySelector("#main")) { location.reload(); return; }
  for (const part of [".top", "#main"]) document.querySelector(part).replaceWith(page.querySelector(part));
  const cards = list(".card");
  if (focus !== null && cards.length) cards[Math.min(focus, cards.length - 1)].focus({ preventScroll: true });
  lookAgain();
}

// The columns are still being matched with the last decision: the page is asked for again when that is done.
async function lookAgain() {
  if (!document.querySelector("[data-again]")) return;
  await fetch("/settled");
  while (busy || /^(INPUT|SELECT)$/.test(document.activeElement.tagName)) await new Promise((go) => setTimeout(go, 200));
  if (!document.querySelector("[data-again]")) return;
  const card = document.activeElement.closest(".card");
  await replacePage(await fetch(location.href), card ? list(".card").indexOf(card) : null);
}

let busy = false;
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  event.preventDefault();
  if (busy) return;
  busy = true;
  const card = form.closest(".card");
  const focus = card ? list(".card").indexOf(card) : null;
  try {
    const body = new URLSearchParams(new FormData(form, event.submitter));
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
  const page = new DOMParser().parseFromString(await (await fetch(source)).text(), "text/html");
  holder.append(...page.body.childNodes);
  event.target.append(holder);
}, true);

document.addEventListener("change", (event) => {
  const { form, list: names, value } = event.target;
  const chosen = names && list("option", names).some((option) => option.value === value);
  if (chosen || form?.matches(".choose") || event.target.matches(".choose")) form.requestSubmit(form.querySelector("button"));
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { document.activeElement.blur(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const card = document.activeElement.closest(".card"), row = document.activeElement.closest(".card tr");
  const step = { j: [".card", 1], k: [".card", -1], ArrowDown: ["tr", 1], ArrowUp: ["tr", -1] }[event.key];
  if (step && (card || step[0] === ".card")) {
    const among = step[0] === "tr" ? list("tbody tr", card) : list(".card");
    const next = among.indexOf(step[0] === "tr" ? row : card) + step[1];
    among[Math.max(0, Math.min(next, among.length - 1))]?.focus();
    event.preventDefault();
    return;
  }
  const name = CSS.escape(event.key);
  const target = row?.querySelector(`[data-row-key="${name}"]`) || card?.querySelector(`[data-card-key="${name}"]`)
    || document.querySelector(`[data-key="${name}"]`);
  if (!target) return;
  event.preventDefault();
  if (target.tagName === "INPUT") { target.focus(); target.select(); } else target.click();
});

lookAgain();
