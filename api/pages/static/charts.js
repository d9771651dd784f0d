"use strict";
// The charts of a job: a line for each series, a point for each pass, sweep or Newton step. The page chooses which charts it has.

const HEIGHT = 210, MOST_DOTS = 30, LONGEST_TEXT = 11, MOST_DECADES = 8, MOST_RINGS = 40;
const positive = (value) => (value > 0 ? value : null);
const brief = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }));
const exact = (value) => (value === null || value === undefined ? "–" : value.toPrecision(7));
const precise = (number) => (number === null || number === undefined ? "–" : number && Math.abs(number) < 1e-3 ? number.toExponential(2) : number.toPrecision(3));

// Shows every second or third power of ten if there are many.
function wholeDecades(u, splits) {
  const exponents = splits.map((value) => Math.round(1e6 * Math.log10(value)) / 1e6), whole = exponents.filter(Number.isInteger);
  const every = Math.max(1, Math.ceil(whole.length / MOST_DECADES));
  return splits.map((value, at) => (Number.isInteger(exponents[at]) && exponents[at] % every === 0 ? value : null));
}

// The range of a curve's later two thirds: the beginning may be far off.
function laterRange(u) {
  const later = u.data.slice(1).flatMap((line) => line.slice(Math.floor(line.length / 3))).filter((value) => value !== null);
  const low = Math.min(...later), high = Math.max(...later), room = 0.08 * (high - low || Math.abs(high) || 1);
  return later.length ? [low - room, high + room] : [0, 1];
}

// Passes, each after its sweeps and its Newton steps.
const withSweeps = (passes) => passes.flatMap((record) => [...[...(record.sweeps ?? []), ...(record.newton ?? [])].map((each) => ({ ...each, lane: record.lane })), record]);

// Whether a record, or the figures of a lane in it, are of a Newton step in which the lane takes part.
const isStep = ({ system_rows }) => system_rows !== undefined && system_rows !== null;
const stepText = ({ step, scans, system_rows, sigma }) => `${brief(step)}: ${brief(scans)} scans, ${brief(system_rows)} rows${sigma === null ? "" : `, sigma ${brief(sigma)}`}`;

// Every n-th value of a line, counted from its end; the others become null.
function thinned(line, every) {
  const at = line.flatMap((value, k) => (value === null ? [] : k)), chosen = new Set(at.filter((_, k) => (at.length - 1 - k) % every === 0));
  return line.map((value, k) => (chosen.has(k) ? value : null));
}

// Rings around the points of lines that are Newton steps, about MOST_RINGS in all lines. One of them stands in the legend, and says more of the step that is pointed at.
function marksOf(lines) {
  const marked = lines.filter((line) => line.some((value) => value !== null));
  const every = Math.ceil(marked.flat().filter((value) => value !== null).length / MOST_RINGS);
  return marked.map((line, at) => ({ series: { label: "Newton step", color: "--newton", isMark: true, isListed: !at }, line: thinned(line, every) }));
}

// The count within each pass, from counts that grow over all passes of a lane, or of lanes that run together.
const inPass = (record, before, name) => record[name] - (before && runTogether(before, record) ? before[name] : 0);
const seconds = (record, before) => record.elapsed_seconds - (before ? before.elapsed_seconds : 0);
const share = (record, before, name) => Math.min(100, 100 * inPass(record, before, name) / seconds(record, before));

// The last value of a line at or before a place.
function held(line, at) {
  while (at > 0 && (line[at] === null || line[at] === undefined)) at -= 1;
  return line[at];
}

const CHARTS = [
  { id: "chart-gap", log: true, show: precise, x: "seconds", series: [
    { label: "M+ − M−", color: "--curve-1", isMarked: true, of: (record) => positive(record.gap) },
    { label: "relative gap, at most", color: "--curve-2", isMarked: true, of: (record) => positive(record.relative_gap_bound) },
    { label: "tolerance", color: "--curve-4", dash: [6, 4], isFor: (job) => job.tolerance > 0, of: (record, before, job) => positive(job.tolerance) },
    { label: "relative gap wanted", color: "--curve-3", dash: [6, 4], isFor: (job) => job.relativeGap > 0, of: (record, before, job) => positive(job.relativeGap) },
  ] },
  { id: "chart-lanes", log: true, show: precise, x: "seconds", lines: laneLines },
  { id: "chart-objective", among: worstOfLast, show: exact, x: "seconds", range: laterRange, series: [
    { label: "primal, at most", color: "--curve-2", of: (record) => record.primal_bound },
    { label: "dual", color: "--curve-1", isMarked: true, of: (record) => record.dual_objective },
  ] },
  { id: "chart-estimate", among: lastRun, show: exact, x: "seconds", range: laterRange, series: [
    { label: "primal, about", color: "--curve-2", of: (record) => record.primal_estimate },
  ] },
  { id: "chart-spread", among: lastRun, log: true, show: precise, x: "seconds", series: [
    { label: "change", color: "--curve-1", of: (record) => positive(record.spread_change) },
    { label: "tolerance", color: "--curve-4", dash: [6, 4], of: (record, before, job) => positive(job.tolerance) },
  ] },
  { id: "chart-vectors", among: lastRun, show: brief, series: [
    { label: "there are", color: "--curve-1", of: (record) => record.support_vectors },
    { label: "merged", color: "--curve-2", of: (record, before) => inPass(record, before, "merges") },
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

// {series, data, texts} of a chart, texts: those of Newton steps; a chart of lanes makes them anew whenever it is drawn.
function linesOf(chart, all, job) {
  if (chart.lines) return chart.lines(all, job);
  const passes = chart.among ? chart.among(all) : all;
  const records = chart.x ? [...withSweeps(passes), ...job.running] : passes;
  if (chart.x && job.certified) records.splice(-1, 1, job.certified);
  const line = (one) => records.map((record, k) => one.of(record, records[k - 1], job));
  const series = chart.series.filter(({ isFor }) => !isFor || isFor(job)), lines = series.map(line);
  const marks = marksOf(lines.filter((_, at) => series[at].isMarked).map((line) => line.map((value, k) => (isStep(records[k]) ? value : null))));
  return {
    series: [...series, ...marks.map((mark) => mark.series)],
    data: [records.map((record) => (chart.x ? record.elapsed_seconds : record.pass)), ...lines, ...marks.map((mark) => mark.line)],
    texts: records.map((record) => (isStep(record) ? stepText(record) : null)),
  };
}

// Marks the points of a line that has few, which would hardly be visible.
const isShort = (line) => line.filter((value) => value !== null && value !== undefined).length <= MOST_DOTS;

// Numbers at an axis, to the last digit in which they differ. Long ones are written as differences from the first, which stands above.
function axisTexts(u, splits) {
  const step = splits.length > 1 ? splits[1] - splits[0] : 1, digits = Math.min(15, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const texts = splits.map((value) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const isLong = texts.some((text) => text.length > LONGEST_TEXT);
  u.root.dataset.offset = isLong ? `${texts[0]} +` : "";
  return isLong ? splits.map((value) => String(Number((value - splits[0]).toPrecision(3)))) : texts;
}

// The width of the longest number at an axis.
const roomFor = (u, texts) => Math.max(64, 24 + 7.5 * Math.max(0, ...(texts ?? []).map((text) => String(text).length)));

const markStyle = (chart, { color: name, isListed }) => ({
  paths: () => null,
  points: { show: true, size: 9, width: 2, stroke: color(name), fill: "transparent" },
  class: isListed ? "newton" : "unlisted",
  value: (u, value, at, index) => (index === null ? null : held(chart.texts, index)) ?? "–",
});

function plot(chart, place, series, data) {
  const axis = { stroke: color("--dim"), grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--grid") }, font: "12px system-ui" };
  const exponent = (u, splits) => splits.map((value) => (value === null ? "" : value.toExponential(0)));
  return new uPlot({
    width: place.clientWidth,
    height: HEIGHT,
    scales: { x: { time: false }, y: { distr: chart.log ? 3 : 1, ...(chart.range && { range: chart.range }) } },
    axes: [{ ...axis, ...(!chart.x && { incrs: [1, 2, 5, 10, 20, 50, 100, 1e3, 1e4, 1e5] }) },
      chart.log
        ? { ...axis, size: 64, values: exponent, filter: wholeDecades, grid: { ...axis.grid, filter: wholeDecades }, ticks: { ...axis.ticks, filter: wholeDecades } }
        : { ...axis, size: roomFor, values: axisTexts },
    ],
    series: [
      { label: chart.x ?? "pass", ...(chart.x && { value: (u, value) => brief(value) }) },
      ...series.map((line) => ({
        label: line.label, stroke: color(line.color), width: 2, dash: line.dash, spanGaps: line.spans, points: { show: (u, at) => !line.dash && isShort(u.data[at]), size: 5 },
        value: (u, value, at, index) => chart.show(line.holds && index !== null ? held(u.data[at], index) : value),
        ...(line.isMark && markStyle(chart, line)),
      })),
    ],
    cursor: { y: false, drag: { x: false, y: false } },
  }, data, place);
}

// Draws the passes of a job {tolerance, relativeGap, names, hasEnded}; call `draw` again whenever there are more.
// running: the sweeps so far of the current pass; certified: the certificate's figures, null until there is one; they are exact, those of the last pass are not.
class Charts {
  constructor(job, charts = CHARTS) {
    this.job = { running: [], certified: null, ...job };
    this.charts = charts.filter(({ id }) => document.getElementById(id));
    this.plots = new Map();
    this.labels = new Map();
    this.passes = [];
    this.pointed = new Map();
    for (const { id } of this.charts) this.listen(document.getElementById(id));
    new ResizeObserver(() => this.resize()).observe(document.getElementById("charts"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  draw(passes) {
    this.passes = passes;
    if (!passes.length && !this.job.running.length) return;
    for (const chart of this.charts) this.drawOne(chart, linesOf(chart, passes, this.job));
    this.showLast();
  }

  drawOne(chart, { series, data, note, texts }) {
    chart.texts = texts ?? [];
    const drawn = this.plots.get(chart.id), labels = series.map(({ label }) => label).join("\n");
    if (note) document.getElementById("lanes-note").textContent = note;
    // A single pass makes no curve: the legend shows its figures.
    document.getElementById(chart.id).classList.toggle("single", !chart.x && data[0].length < 2);
    if (drawn && this.labels.get(chart.id) === labels) return drawn.setData(data);
    if (drawn) drawn.destroy();
    this.labels.set(chart.id, labels);
    const made = plot(chart, document.getElementById(chart.id), series, data);
    made.over.addEventListener("mouseleave", () => this.showLast());
    this.plots.set(chart.id, made);
  }

  // The legends show the last pass until the user points at another. A chart that is new or resized loses its cursor until the next frame.
  showLast() {
    requestAnimationFrame(() => {
      for (const [id, drawn] of this.plots) if (!this.pointed.has(id)) drawn.setLegend({ idx: drawn.data[0].length - 1 });
    });
  }

  // The arrow keys move the cursor, too.
  listen(place) {
    place.tabIndex = 0;
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", `${place.dataset.name}; arrow keys go from value to value`);
    place.addEventListener("keydown", (event) => this.point(place.id, event));
    place.addEventListener("blur", () => {
      this.pointed.delete(place.id);
      this.plots.get(place.id)?.setCursor({ left: -10, top: -10 });
      this.showLast();
    });
  }

  point(id, event) {
    const drawn = this.plots.get(id), last = drawn ? drawn.data[0].length - 1 : -1;
    const from = this.pointed.get(id) ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    const at = Math.min(last, Math.max(0, to));
    this.pointed.set(id, at);
    drawn.root.querySelector(".u-legend").setAttribute("aria-live", "polite");
    drawn.setCursor({ left: drawn.valToPos(drawn.data[0][at], "x"), top: drawn.over.clientHeight / 2 });
    drawn.setLegend({ idx: at });
  }

  resize() {
    for (const drawn of this.plots.values()) drawn.setSize({ width: drawn.root.parentElement.clientWidth, height: HEIGHT });
    this.showLast();
  }

  redraw() {
    for (const drawn of this.plots.values()) drawn.destroy();
    this.plots.clear();
    this.draw(this.passes);
  }
}
