"use strict";
// Draws the curve of a cross-validation as SVG: a metric on held-out rows against C. A job's page loads it after pictures.js.

const WIDEST = 560, HIGH = 330, LEFT = 62, RIGHT = 22, TOP = 26, BOTTOM = 52, LABEL_ROOM = 46, FEWEST_TICKS = 4;

// Shows a choice of metrics and the curve of the chosen one; `selectBy` is the figure that selected C.
function showCurve(figure, { cv, selected_C }, selectBy) {
  const choice = figure.querySelector("select");
  const known = Object.keys(cv[0].mean).filter((name) => cv.some(({ mean }) => mean[name] !== null));
  choice.replaceChildren(...known.map((name) => new Option(name.replaceAll("_", " "), name, name === selectBy, name === selectBy)));
  let wide = 0;
  const draw = () => {
    figure.querySelector("svg")?.remove();
    drawCurve(figure, wide, cv, choice.value, selected_C);
  };
  choice.addEventListener("change", draw);
  // On a small screen the curve shrinks and the letters do not.
  new ResizeObserver(([{ contentRect }]) => {
    const now = Math.min(WIDEST, contentRect.width);
    if (now === wide) return;
    wide = now;
    requestAnimationFrame(draw);
  }).observe(figure);
}

// Steps of 1, 2 or 5 times a power of ten, the smallest that makes few enough of them.
function niceStep(range) {
  const power = 10 ** Math.floor(Math.log10(range / FEWEST_TICKS));
  return power * [1, 2, 5, 10].findLast((times) => times * power <= range / FEWEST_TICKS);
}

function ticks(low, high) {
  const step = niceStep(high - low), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, k) => [(first + k) * step, ((first + k) * step).toFixed(digits)]);
}

function drawCurve(place, wide, cv, metric, selected) {
  const points = cv.filter(({ mean }) => mean[metric] !== null).map(({ C, mean, std }) => ({ C, mean: mean[metric], std: std[metric] }));
  const [first, last] = [points[0].C, points[points.length - 1].C].map(Math.log10);
  const lowest = Math.min(...points.map(({ mean, std }) => mean - std)), highest = Math.max(...points.map(({ mean, std }) => mean + std));
  const room = 0.08 * (highest - lowest) || 0.01 * Math.abs(highest) || 1, low = lowest - room, high = highest + room;
  const across = (C) => LEFT + (wide - LEFT - RIGHT) * (last > first ? (Math.log10(C) - first) / (last - first) : 0.5);
  const up = (value) => TOP + (HIGH - TOP - BOTTOM) * (high - value) / (high - low);
  const title = metric.replaceAll("_", " "), svg = picture(place, wide, HIGH, `${title} by C, with its standard deviation over the folds`);
  svg.classList.add("wide");
  for (const [value, text] of ticks(low, high)) {
    drawn(svg, "line", { x1: LEFT, x2: wide - RIGHT, y1: up(value), y2: up(value), class: "grid" });
    drawn(svg, "text", { x: LEFT - 8, y: up(value), class: "name", "text-anchor": "end", "font-size": 13 }, text);
  }
  drawValuesOfC(svg, wide, points, across, selected);
  const edge = [...points.map(({ C, mean, std }) => [C, mean + std]), ...points.toReversed().map(({ C, mean, std }) => [C, mean - std])];
  drawn(svg, "polygon", { points: edge.map(([C, value]) => `${across(C)},${up(value)}`).join(" "), class: "band" });
  drawn(svg, "polyline", { points: points.map(({ C, mean }) => `${across(C)},${up(mean)}`).join(" "), class: "curve" });
  for (const { C, mean, std } of points) {
    const dot = drawn(svg, "circle", { cx: across(C), cy: up(mean), r: C === selected ? 7 : 4, class: C === selected ? "dot selected" : "dot" });
    drawn(dot, "title", {}, `C = ${C}: ${title} ${mean.toPrecision(4)} ± ${std.toPrecision(2)}${C === selected ? ", selected" : ""}`);
  }
}

// Writes as many values below the axis as there is room for, the selected one first.
function drawValuesOfC(svg, wide, points, across, selected) {
  const floor = HIGH - BOTTOM, taken = [];
  const values = points.map(({ C }) => C).sort((one, other) => (other === selected) - (one === selected));
  for (const C of values) {
    const x = across(C), name = C < 1e-3 ? C.toExponential(0) : String(Number(C.toPrecision(3)));
    drawn(svg, "line", { x1: x, x2: x, y1: floor, y2: floor + 5, class: "grid" });
    if (taken.some((other) => Math.abs(other - x) < LABEL_ROOM)) continue;
    taken.push(x);
    drawn(svg, "text", { x, y: floor + 17, class: "name", "text-anchor": "middle", "font-size": 13 }, name);
  }
  if (points.some(({ C }) => C === selected)) {
    const x = across(selected), anchor = x < LEFT + 50 ? "start" : x > wide - RIGHT - 50 ? "end" : "middle";
    drawn(svg, "line", { x1: x, x2: x, y1: TOP, y2: floor, class: "diagonal" });
    drawn(svg, "text", { x, y: TOP - 13, class: "name", "text-anchor": anchor, "font-size": 13 }, `selected: C = ${Number(selected.toPrecision(3))}`);
  }
  drawn(svg, "text", { x: (LEFT + wide - RIGHT) / 2, y: HIGH - 10, class: "axis", "text-anchor": "middle", "font-size": 14 }, "C");
}
