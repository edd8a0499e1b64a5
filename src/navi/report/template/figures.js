"use strict";

(() => {
  const ink = "var(--ink)", muted = "var(--muted)", line = "var(--line)";
  const font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

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
      axisYBand: { labelColor: ink, labelLimit: Math.min(260, width * 0.5), labelLineHeight: 14, grid: false, ticks: false },
      text: { fill: ink, fontSize: 11.5, font },
    };
  }

  const tooltip = document.getElementById("tooltip");

  function describe(value) {
    const list = document.createElement("dl");
    for (const [name, told] of Object.entries(value)) {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      text.textContent = told;
      list.append(term, text);
    }
    return list;
  }

  // Texts of users' tables are put into the page as text, which a ready-made tooltip does not promise.
  function showTooltip(_, event, __, value) {
    if (value === null || value === undefined || value === "") {
      tooltip.hidden = true;
      return;
    }
    tooltip.replaceChildren(describe(value));
    tooltip.hidden = false;
    const room = 12, { offsetWidth: width, offsetHeight: height } = tooltip;
    const left = event.clientX + room + width > innerWidth ? event.clientX - room - width : event.clientX + room;
    const top = event.clientY + room + height > innerHeight ? event.clientY - room - height : event.clientY + room;
    tooltip.style.left = `${Math.max(room / 2, left)}px`;
    tooltip.style.top = `${Math.max(room / 2, top)}px`;
  }

  function wireLegend(figure, view) {
    const buttons = [...figure.querySelectorAll(".legend button")];
    buttons.forEach((button) =>
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
        const hidden = buttons.filter((each) => each.getAttribute("aria-pressed") !== "true");
        view.signal("hidden", hidden.map((each) => each.dataset.name)).runAsync();
      }),
    );
  }

  async function drawFigure(figure) {
    const plot = figure.querySelector(".plot");
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const { view } = await vegaEmbed(plot, spec, {
      actions: false, ast: true, config: configure(plot.clientWidth), defaultStyle: false, mode: "vega-lite",
      renderer: "svg", tooltip: showTooltip,
    });
    wireLegend(figure, view);
  }

  addEventListener("scroll", () => { tooltip.hidden = true; }, { passive: true });
  Promise.all([...document.querySelectorAll("figure.chart")].map(drawFigure)).then(() => {
    document.documentElement.dataset.drawn = "yes";
  });
})();
