"use strict";
// Sorts the history of a job by lanes, names the lanes, and chooses which of many are drawn.

const MOST_LINES = 10, MOST_RUNNING = 6, WORST_DRAWN = 3;
const LANE_COLORS = Array.from({ length: MOST_LINES }, (_, at) => `--lane-${at + 1}`);

// The lanes of a line of the history: one, or several that run side by side. Lines of old versions do not say which.
const lanesIn = (record) => record.lanes ?? [{ ...record, lane: record.lane ?? 0 }];

function runTogether(record, other) {
  const lanes = new Set(lanesIn(other).map(({ lane }) => lane));
  return lanesIn(record).some(({ lane }) => lanes.has(lane));
}

// The passes of the last lane, or of the last lanes that ran side by side.
function lastRun(passes) {
  let first = passes.length - 1;
  while (first > 0 && runTogether(passes[first - 1], passes[first])) first -= 1;
  return passes.slice(first);
}

// The passes of that lane of them that ended farthest from its optimum: objectives of different lanes cannot be compared.
function worstOfLast(passes) {
  const run = lastRun(passes), found = run.length ? lanesIn(run[run.length - 1]) : [];
  if (found.length < 2) return run;
  const off = ({ gap, relative_gap_bound }) => gap ?? relative_gap_bound ?? 0;
  const { lane } = found.reduce((worst, each) => (off(each) > off(worst) ? each : worst));
  const itsOwn = (record) => ({ ...record, lanes: undefined, sweeps: [], newton: [], ...lanesIn(record).find((each) => each.lane === lane) });
  return run.filter((record) => lanesIn(record).some((each) => each.lane === lane)).map(itsOwn);
}

// Number of a lane -> the figures of each of its passes, with the job's time.
function byLane(passes) {
  const found = new Map();
  for (const record of passes) {
    for (const figures of lanesIn(record)) {
      if (!found.has(figures.lane)) found.set(figures.lane, []);
      found.get(figures.lane).push({ ...figures, seconds: record.elapsed_seconds });
    }
  }
  return found;
}

// Names lanes by what differs: class, C or fold; what all share is left out.
function laneNames(lanes) {
  const vary = (key) => new Set(lanes.map((lane) => lane[key])).size > 1;
  const [classes, folds, values] = ["class", "fold", "C"].map(vary);
  return lanes.map((lane, at) => [
    classes && lane.class,
    folds && (lane.fold === null ? "all rows" : `fold ${lane.fold}`),
    values && `C ${Number(lane.C.toPrecision(3))}`,
  ].filter((part) => part !== false).join(" · ") || `lane ${at + 1}`);
}

// Takes [number, last value] of lanes and the numbers of running ones; returns which are drawn, and why if not all are.
function chosenLanes(last, running) {
  if (last.length <= MOST_LINES) return new Map(last.map(([lane]) => [lane, ""]));
  const ranked = last.filter(([, value]) => value !== null).sort((one, other) => other[1] - one[1]).map(([lane]) => lane);
  const chosen = new Map(ranked.slice(0, WORST_DRAWN).map((lane) => [lane, "worst"]));
  if (ranked.length) chosen.set(ranked[ranked.length - 1], "best");
  for (const lane of ranked.filter((lane) => running.has(lane) && !chosen.has(lane)).slice(0, MOST_RUNNING)) chosen.set(lane, "runs");
  return new Map([...chosen].sort(([one], [other]) => one - other));
}

// The chart of the lanes' gaps, for `charts.js`; solvers without M+ and M- have bounds instead.
function laneLines(passes, job) {
  const records = withSweeps(passes), lanes = byLane(records);
  const hasGaps = [...lanes.values()].some((line) => line.some(({ gap }) => gap !== null));
  const of = (figures) => (hasGaps ? figures.gap : figures.relative_gap_bound);
  const last = [...lanes].map(([lane, line]) => [lane, line.map(of).findLast((value) => value > 0) ?? null]);
  const running = new Set(job.hasEnded || !passes.length ? [] : lanesIn(passes[passes.length - 1]).map(({ lane }) => lane));
  const chosen = chosenLanes(last, running);
  const seconds = [...new Set([...chosen.keys()].flatMap((lane) => lanes.get(lane).map((figures) => figures.seconds)))].sort((one, other) => one - other);
  const series = [...chosen].map(([lane, why], at) => ({
    label: (job.names[lane] ?? `lane ${lane + 1}`) + (why && ` (${why})`), color: LANE_COLORS[at], holds: true,
  }));
  const lines = [...chosen.keys()].map((lane) => {
    const values = new Map(lanes.get(lane).map((figures) => [figures.seconds, positive(of(figures))]));
    return seconds.map((at) => values.get(at) ?? null);
  });
  const marks = marksOf([...chosen.keys()].map((lane) => {
    const steps = new Map(lanes.get(lane).filter(isStep).map((figures) => [figures.seconds, positive(of(figures))]));
    return seconds.map((at) => steps.get(at) ?? null);
  }));
  const texts = new Map(records.filter(isStep).map((step) => [step.elapsed_seconds, stepText(step)]));
  const target = hasGaps ? job.tolerance : job.relativeGap;
  if (target > 0) {
    series.push({ label: hasGaps ? "tolerance" : "relative gap wanted", color: "--curve-4", dash: [6, 4] });
    lines.push(seconds.map(() => target));
  }
  const some = chosen.size < lanes.size ? `; of ${lanes.size} the worst, the best and what runs` : "";
  return {
    series: [...series, ...marks.map((mark) => mark.series)], data: [seconds, ...lines, ...marks.map((mark) => mark.line)], texts: seconds.map((at) => texts.get(at) ?? null), note: `${hasGaps ? "M+ − M−" : "relative gap, at most,"} by seconds, log scale${some}`,
  };
}

// Writes the figures so far of unfinished lanes into their lines of the table.
function showLanes(table, passes, hasEnded) {
  if (!table || !passes.length) return;
  const lanes = byLane(passes), running = new Set(lanesIn(passes[passes.length - 1]).map(({ lane }) => lane));
  for (const row of table.querySelectorAll("tr[data-lane]")) {
    const lane = Number(row.dataset.lane), line = lanes.get(lane);
    const { gap, relative_gap_bound, primal_bound } = line ? line[line.length - 1] : {};
    const state = !line ? "" : running.has(lane) && !hasEnded ? "runs" : "done";
    const texts = [line ? line.length : "–", precise(gap), precise(relative_gap_bound), brief(primal_bound), state];
    texts.forEach((text, at) => { row.cells[at + 3].textContent = text; });
  }
}
