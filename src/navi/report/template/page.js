"use strict";

(() => {
  const root = document.documentElement;

  function recall() {
    // Browsers may refuse to keep anything for a page that is a file.
    try {
      return localStorage.getItem("navi-theme");
    } catch {
      return null;
    }
  }

  function keep(theme) {
    try {
      localStorage.setItem("navi-theme", theme);
    } catch {
      // Then the choice lasts as long as the page is open.
    }
  }

  function offerThemes(button) {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    const tell = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
    };
    const kept = recall();
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      keep(root.dataset.theme);
      tell();
    });
    system.addEventListener("change", tell);
    button.hidden = false;
    tell();
  }

  const texts = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  function compare(left, right, isNumber) {
    return isNumber ? Number(left) - Number(right) : texts.compare(left, right);
  }

  function orderRows(rows, place, isNumber, direction) {
    const key = (row) => row.cells[place].dataset.key;
    return rows.toSorted((a, b) => {
      const [left, right] = [key(a), key(b)];
      // What holds nothing comes last either way.
      if (left === undefined || right === undefined) return (left === undefined) - (right === undefined);
      return direction * compare(left, right, isNumber);
    });
  }

  function makeSortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const headers = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    headers.forEach((header, place) => {
      const isNumber = header.classList.contains("number");
      // Figures are first asked for from the highest, texts from A; the third time brings the order of the report back.
      const turns = isNumber ? ["descending", "ascending"] : ["ascending", "descending"];
      header.querySelector("button").addEventListener("click", () => {
        const next = turns[turns.indexOf(header.getAttribute("aria-sort")) + 1];
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        if (next) header.setAttribute("aria-sort", next);
        const direction = next === "ascending" ? 1 : -1;
        body.append(...(next ? orderRows(original, place, isNumber, direction) : original));
      });
    });
  }

  const ink = "var(--ink)", muted = "var(--muted)", line = "var(--line)";
  const font = getComputedStyle(root).getPropertyValue("--sans");

  function configure(width) {
    return {
      background: "transparent",
      font,
      view: { stroke: null },
      axis: {
        labelColor: muted, titleColor: muted, domainColor: line, tickColor: line, gridColor: line,
        labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", titlePadding: 10, labelPadding: 6,
        tickSize: 0, domain: false, labelOverlap: true,
      },
      axisX: { grid: false, tickCount: Math.max(3, Math.round(width / 110)) },
      axisY: { tickCount: 6 },
      legend: { labelColor: ink, labelFontSize: 13, symbolType: "circle", labelLimit: Math.min(300, width * 0.7), columns: Math.max(1, Math.floor(width / 230)) },
    };
  }

  async function drawChart(chart) {
    const plot = chart.querySelector(".plot");
    await vegaEmbed(plot, JSON.parse(chart.querySelector("script").textContent), {
      actions: false, ast: true, config: configure(plot.clientWidth), defaultStyle: false, mode: "vega-lite",
      renderer: "svg", tooltip: { disableDefaultStyle: true },
    });
  }

  Promise.all([...document.querySelectorAll("figure.chart")].map(drawChart)).then(() => {
    root.dataset.drawn = "yes";
  });
  offerThemes(document.querySelector(".theme"));
  document.querySelectorAll(".scroll > table").forEach(makeSortable);
})();
