// A map of points on a canvas: pointing at one shows it, a line drawn around some lists them, the wheel zooms,
// dragging with shift moves.
"use strict";

(async () => {
  const canvas = document.querySelector("canvas"), tip = document.querySelector(".tip");
  const legend = document.querySelector(".legend"), chosenList = document.querySelector(".chosen"), count = document.querySelector("#count");
  const data = await (await fetch(canvas.dataset.src)).json();
  const { text, group, names } = data, method = document.querySelector("#method");
  let { x, y } = data;
  const MOST_COLOURS = 10, MOST_LISTED = 200, NEAR = 10;
  const sizes = names.map(() => 0);
  group.forEach((number) => { sizes[number] += 1; });
  const ranked = names.map((_, k) => k).sort((a, b) => sizes[b] - sizes[a]);
  const colourOf = names.map((_, k) => (ranked.indexOf(k) < MOST_COLOURS ? ranked.indexOf(k) + 1 : 0));
  let view = { scale: 1, dx: 0, dy: 0 }, lasso = null, moving = false, selected = null, shown = null, colours = [], frame = 0;
  const px = new Float32Array(x.length), py = new Float32Array(x.length);

  function readColours() {
    const probe = document.createElement("span");
    document.body.append(probe);
    const resolve = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
    colours = [...Array(MOST_COLOURS + 1).keys()].map((k) => resolve(`--c${k}`)).concat(resolve("--accent"));
    probe.remove();
  }

  function place() {
    const { width, height } = canvas.getBoundingClientRect(), ratio = devicePixelRatio;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    for (let k = 0; k < x.length; k += 1) {
      px[k] = (0.03 + 0.94 * x[k]) * width * view.scale + view.dx;
      py[k] = (0.03 + 0.94 * y[k]) * height * view.scale + view.dy;
    }
  }

  function draw() {
    frame = 0;
    place();
    const pen = canvas.getContext("2d"), size = x.length > 5000 ? 2.5 : 5;
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (let colour = 0; colour <= MOST_COLOURS; colour += 1) {
      pen.fillStyle = colours[colour];
      for (let k = 0; k < px.length; k += 1) {
        if (colourOf[group[k]] !== colour) continue;
        pen.globalAlpha = (selected && !selected.has(k)) || (shown !== null && shown !== group[k]) ? 0.12 : 0.8;
        pen.fillRect(px[k] - size / 2, py[k] - size / 2, size, size);
      }
    }
    pen.globalAlpha = 1;
    if (lasso) {
      pen.strokeStyle = colours[MOST_COLOURS + 1];
      pen.lineWidth = 1.5;
      pen.beginPath();
      lasso.forEach(([left, top]) => pen.lineTo(left, top));
      pen.closePath();
      pen.stroke();
    }
  }
  const redraw = () => { frame ||= requestAnimationFrame(draw); };

  function listPoints(points) {
    chosenList.replaceChildren(...points.slice(0, MOST_LISTED).map((k) => {
      const item = document.createElement("li");
      item.textContent = text[k];
      return item;
    }));
    const more = points.length > MOST_LISTED ? `, the first ${MOST_LISTED} listed` : "";
    count.textContent = `${points.length.toLocaleString("en")} chosen${more}.`;
  }

  function choose() {
    const shape = new Path2D(), pen = canvas.getContext("2d");
    lasso.forEach(([left, top]) => shape.lineTo(left, top));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    const inside = [...px.keys()].filter((k) => pen.isPointInPath(shape, px[k], py[k]));
    selected = inside.length ? new Set(inside) : null;
    listPoints(inside);
  }

  function point(event) {
    const box = canvas.getBoundingClientRect(), left = event.clientX - box.left, top = event.clientY - box.top;
    let best = -1, least = NEAR * NEAR;
    for (let k = 0; k < px.length; k += 1) {
      const far = (px[k] - left) ** 2 + (py[k] - top) ** 2;
      if (far < least) { least = far; best = k; }
    }
    tip.hidden = best < 0;
    if (best < 0) return;
    tip.textContent = text[best];
    tip.style.left = `${Math.max(0, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (event.shiftKey) moving = true; else lasso = [[event.offsetX, event.offsetY]];
    tip.hidden = true;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (moving) view = { ...view, dx: view.dx + event.movementX, dy: view.dy + event.movementY };
    else if (lasso) lasso.push([event.offsetX, event.offsetY]);
    else { point(event); return; }
    redraw();
  });
  canvas.addEventListener("pointerup", () => {
    if (lasso) choose();
    lasso = null;
    moving = false;
    redraw();
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const scale = Math.min(40, Math.max(1, view.scale * Math.exp(-event.deltaY / 400))), factor = scale / view.scale;
    view = scale === 1 ? { scale, dx: 0, dy: 0 }
      : { scale, dx: event.offsetX - factor * (event.offsetX - view.dx), dy: event.offsetY - factor * (event.offsetY - view.dy) };
    redraw();
  }, { passive: false });

  ranked.slice(0, 60).forEach((number) => {
    const button = document.createElement("button"), dot = document.createElement("span"), size = document.createElement("span"), item = document.createElement("li");
    button.type = "button";
    dot.className = `dot c${colourOf[number]}`;
    button.setAttribute("aria-pressed", "false");
    size.className = "muted";
    size.textContent = sizes[number].toLocaleString("en");
    button.append(dot, names[number], size);
    button.addEventListener("click", () => {
      shown = shown === number ? null : number;
      selected = null;
      legend.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", String(each === button && shown === number)));
      listPoints(shown === null ? [] : [...group.keys()].filter((k) => group[k] === number));
      redraw();
    });
    item.append(button);
    legend.append(item);
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    view = { scale: 1, dx: 0, dy: 0 };
    lasso = selected = shown = null;
    legend.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", "false"));
    listPoints([]);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  addEventListener("resize", redraw);
  readColours();
  draw();
  canvas.dataset.drawn = "yes";
  // Points are placed coarsely at first, and move when a better method is done with them.
  for (let next = data.next; next;) {
    method.textContent = `${data.method}; ${next} is at work`;
    await new Promise((go) => setTimeout(go, 2000));
    const answer = await (await fetch(canvas.dataset.src)).json();
    if (!answer.next) { ({ x, y } = answer); method.textContent = answer.method; redraw(); }
    next = answer.next;
  }
})();
