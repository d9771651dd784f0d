"use strict";
// Draws an evaluation as SVG: the confusion of classes, curves, and the reliability of probabilities. A model's page loads it, and its other
// scripts have its helpers.

const MOST_DRAWN = 100, MOST_WITH_NUMBERS = 12, MOST_WITH_NAMES = 40, LONGEST_NAME = 12;

// Makes an SVG element with attributes, and its text if there is one.
function drawn(parent, name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
}

function added(parent, name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return parent.appendChild(element);
}

function picture(place, width, height, description) {
  return drawn(place, "svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description });
}

const shortened = (label) => {
  const name = String(label);
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
};
const inShort = (number) => (number === null ? "–" : Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }));
const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}%`);

// On a small screen the picture shrinks and the letters do not.
const roomIn = (place, edge, most) => Math.max(120, Math.min(most, place.clientWidth - edge - 42));

// A square for each pair of true and predicted class; the darker, the larger the share of the true class.
// Counts the weights of rows where they have any.
function drawConfusion(place, { labels, rows }, weighted) {
  const longest = labels.length > MOST_WITH_NAMES ? 0 : Math.max(...labels.map((label) => shortened(label).length));
  const edge = 34 + 7 * longest, room = roomIn(place, edge, 380), side = room / labels.length, full = edge + room;
  const svg = picture(place, full + 10, full + 10, "rows by the class they have and the class predicted");
  drawn(svg, "text", { x: edge + room / 2, y: 14, class: "axis", "text-anchor": "middle" }, "predicted");
  drawn(svg, "text", { x: 12, y: edge + room / 2, class: "axis", "text-anchor": "middle", transform: `rotate(-90 12 ${edge + room / 2})` }, "is");
  rows.forEach((row, is) => {
    const total = row.reduce((sum, count) => sum + count, 0);
    row.forEach((count, said) => {
      const counted = count.toLocaleString("en"), shown = weighted ? `weight ${counted}` : `${counted} rows`;
      const x = edge + said * side, y = edge + is * side, share = total ? count / total : 0;
      const cell = drawn(svg, "rect", {
        x, y, width: side, height: side, class: is === said ? "cell right" : "cell wrong", "fill-opacity": share.toFixed(3),
      });
      drawn(cell, "title", {}, `${labels[is]} predicted as ${labels[said]}: ${shown}, ${percent(total ? share : null)}`);
      if (labels.length <= MOST_WITH_NUMBERS) {
        const size = Math.min(15, 1.5 * side / Math.max(3, weighted ? counted.length : String(count).length));
        drawn(svg, "text", { x: x + side / 2, y: y + side / 2, class: share > 0.6 ? "count on" : "count", "font-size": size }, counted);
      }
    });
  });
  if (!longest) return;
  const turned = longest > 3;  // shorter ones fit side by side
  labels.forEach((label, at) => {
    const middle = edge + (at + 0.5) * side, size = Math.min(13, 0.9 * side);
    drawn(svg, "text", { x: edge - 5, y: middle, class: "name", "text-anchor": "end", "font-size": size }, shortened(label));
    const above = { x: middle, y: edge - 9, class: "name", "font-size": size, "text-anchor": turned ? "start" : "middle" };
    if (turned) above.transform = `rotate(-60 ${middle} ${edge - 9})`;
    drawn(svg, "text", above, shortened(label));
  });
}

// Makes a square picture with shares from 0 to 1 along both axes; returns it with where a share is, across and up.
function square(place, description, title) {
  const edge = 45, side = roomIn(place, edge, 400), at = (share) => edge + side * share, up = (share) => 10 + side * (1 - share);
  const svg = picture(place, edge + side + 15, side + 60, description);
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    drawn(svg, "line", { x1: edge, x2: at(1), y1: up(tick), y2: up(tick), class: "grid" });
    drawn(svg, "text", { x: edge - 6, y: up(tick), class: "name", "text-anchor": "end", "font-size": 13 }, tick);
    drawn(svg, "text", { x: at(tick), y: side + 26, class: "name", "text-anchor": "middle", "font-size": 13 }, tick);
  }
  drawn(svg, "text", { x: at(0.5), y: side + 46, class: "axis", "text-anchor": "middle" }, title);
  return { svg, side, at, up };
}

// Plots shares against others, each a name and a list; a dot that is not seen tells its point by `told(place, x, y)`.
function drawRates(place, [across, xs], [upward, ys], told) {
  const { svg, at, up } = square(place, `${upward} by ${across}`, across);
  if (across !== "recall") drawn(svg, "line", { x1: at(0), y1: up(0), x2: at(1), y2: up(1), class: "diagonal" });
  drawn(svg, "polyline", { points: xs.map((x, k) => `${at(x)},${up(ys[k])}`).join(" "), class: "curve" });
  xs.forEach((x, k) => {
    const dot = drawn(svg, "circle", { cx: at(x), cy: up(ys[k]), r: 5, class: "point" });
    drawn(dot, "title", {}, told(k, `${across} ${percent(x)}`, `${upward} ${percent(ys[k])}`));
  });
}

// Plots the share of rows of a class against the predicted probability, which agree on the diagonal. The bars count the rows of a bin.
function drawReliability(place, bins) {
  const most = Math.max(...bins.map((bin) => bin.rows));
  const { svg, side, at, up } = square(place, "share that was so by the probability that was said", "probability said");
  for (const bin of bins) {
    const height = 0.25 * bin.rows / most;
    const bar = drawn(svg, "rect", { x: at(bin.from) + 1, width: side / bins.length - 2, y: up(height), height: side * height, class: "bar" });
    drawn(bar, "title", {}, `${bin.rows.toLocaleString("en")} rows with a probability from ${bin.from} to ${bin.to}`);
  }
  drawn(svg, "line", { x1: at(0), y1: up(0), x2: at(1), y2: up(1), class: "diagonal" });
  const there = bins.filter((bin) => bin.probability !== null);
  drawn(svg, "polyline", { points: there.map((bin) => `${at(bin.probability)},${up(bin.share)}`).join(" "), class: "curve" });
  for (const bin of there) {
    const dot = drawn(svg, "circle", { cx: at(bin.probability), cy: up(bin.share), r: 5, class: "dot" });
    drawn(dot, "title", {}, `said ${percent(bin.probability)}, was so ${percent(bin.share)}, of ${bin.rows.toLocaleString("en")} rows`);
  }
}
