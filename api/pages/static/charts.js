"use strict";
// The four charts of a job: a line a series, a point a pass.

const HEIGHT = 210;
const positive = (value) => (value > 0 ? value : null);
const brief = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }));
const tiny = (value) => (value === null || value === undefined ? "–" : value < 1e-3 ? value.toExponential(2) : value.toPrecision(3));
const wholeDecades = (u, splits) => splits.map((value) => (Number.isInteger(Math.round(1e6 * Math.log10(value)) / 1e6) ? value : null));

// Of a curve that begins far off: what the later two thirds of it need.
function laterRange(u) {
  const later = u.data.slice(1).flatMap((line) => line.slice(Math.floor(line.length / 3))).filter((value) => value !== null);
  const low = Math.min(...later), high = Math.max(...later), room = 0.08 * (high - low || Math.abs(high) || 1);
  return later.length ? [low - room, high + room] : [0, 1];
}

// What was counted in a pass of what is counted over all passes.
const inPass = (record, before, name) => record[name] - (before ? before[name] : 0);
const share = (record, before, name) => 100 * inPass(record, before, name) / inPass(record, before, "elapsed_seconds");

const CHARTS = [
  { id: "chart-gap", log: true, show: tiny, series: [
    { label: "M+ − M−", color: "--curve-1", of: (record) => positive(record.gap) },
    { label: "relative gap, at most", color: "--curve-2", of: (record) => positive(record.relative_gap_bound) },
    { label: "tolerance", color: "--curve-4", dash: [6, 4], of: (record, before, job) => positive(job.tolerance) },
  ] },
  { id: "chart-objective", show: (value) => (value === null || value === undefined ? "–" : value.toPrecision(7)), range: laterRange, series: [
    { label: "primal, at most", color: "--curve-2", of: (record) => record.primal_bound },
    { label: "dual", color: "--curve-1", of: (record) => record.dual_objective },
  ] },
  { id: "chart-rows", show: brief, series: [
    { label: "in the cache", color: "--curve-1", of: (record) => record.resident_rows },
    { label: "free", color: "--curve-3", of: (record) => record.free_rows },
    { label: "evicted", color: "--curve-2", of: (record, before) => inPass(record, before, "evicted_rows") },
  ] },
  { id: "chart-waits", show: (value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)}%`), range: () => [0, 100], series: [
    { label: "reader waits", color: "--curve-1", of: (record, before) => share(record, before, "reader_wait_seconds") },
    { label: "trainer waits", color: "--curve-2", of: (record, before) => share(record, before, "trainer_wait_seconds") },
  ] },
];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function plot(chart, place, data) {
  const axis = { stroke: color("--dim"), grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--grid") }, font: "12px system-ui" };
  const exponent = (u, splits) => splits.map((value) => (value === null ? "" : value.toExponential(0)));
  return new uPlot({
    width: place.clientWidth,
    height: HEIGHT,
    scales: { x: { time: false }, y: { distr: chart.log ? 3 : 1, ...(chart.range && { range: chart.range }) } },
    axes: [{ ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 1e3, 1e4, 1e5] }, 
      chart.log
        ? { ...axis, size: 64, values: exponent, filter: wholeDecades, grid: { ...axis.grid, filter: wholeDecades }, ticks: { ...axis.ticks, filter: wholeDecades } }
        : { ...axis, size: 64 },
    ],
    series: [
      { label: "pass" },
      ...chart.series.map((line) => ({
        label: line.label, stroke: color(line.color), width: 2, dash: line.dash, points: { show: line.dash ? false : undefined, size: 5 },
        value: (u, value) => chart.show(value),
      })),
    ],
    cursor: { y: false, drag: { x: false, y: false } },
  }, data, place);
}

// Draws the passes of a job; `draw` again whenever there are more.
class Charts {
  constructor(job) {
    this.job = job;
    this.plots = new Map();
    this.passes = [];
    new ResizeObserver(() => this.resize()).observe(document.querySelector(".charts"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  draw(passes) {
    this.passes = passes;
    if (!passes.length) return;
    for (const chart of CHARTS) {
      const line = (series) => passes.map((record, k) => series.of(record, passes[k - 1], this.job));
      const data = [passes.map((record) => record.pass), ...chart.series.map(line)];
      const drawn = this.plots.get(chart.id);
      if (drawn) drawn.setData(data);
      else this.plots.set(chart.id, plot(chart, document.getElementById(chart.id), data));
    }
    this.showLast();
  }

  // In the legends, until someone points at another pass.
  showLast() {
    for (const drawn of this.plots.values()) drawn.setLegend({ idx: this.passes.length - 1 });
  }

  resize() {
    for (const drawn of this.plots.values()) drawn.setSize({ width: drawn.root.parentElement.clientWidth, height: HEIGHT });
    this.showLast();  // what has another size forgets it
  }

  redraw() {
    for (const drawn of this.plots.values()) drawn.destroy();
    this.plots.clear();
    this.draw(this.passes);
  }
}
