"use strict";
// Shows a job live: figures and curves follow its events.

const job = document.getElementById("job").dataset;
const lanes = JSON.parse(job.lanes), names = laneNames(lanes);
const about = { tolerance: Number(job.tolerance), relativeGap: Number(job.relativeGap), names, hasEnded: job.ended === "yes" };
const charts = new Charts(about);
const MANY_SECONDS = 2 * 86_400;
let passes = [], isDue = false;

function duration(seconds) {
  const whole = Math.round(seconds), two = (part) => String(part).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole >= MANY_SECONDS) return `${Math.round(whole / 86_400)} days`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes}:${two(whole % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

function size(bytes) {
  let unit = Math.min(4, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  if (unit < 4 && bytes / 1024 ** unit >= 1023.95) unit += 1; // which would be written as 1024.0
  return `${(bytes / 1024 ** unit).toFixed(unit ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

const whole = (number) => Math.round(number).toLocaleString("en");

function lanesBeingTrained({ number, count, of }) {
  if (count === of) return `${of} lanes side by side`;
  return count > 1 ? `lanes ${number + 1} to ${number + count} of ${of}` : `lane ${number + 1} of ${of}`;
}

const SOLVER_PHASES = { stream: "rows are read in", sweep: "sweeps", newton: "Newton steps" };

function place({ lane, sweep, block, blocks, solver_phase, newton }) {
  const which = lane && lane.of > 1 && lane.number !== null ? lanesBeingTrained(lane) : "";
  const where = solver_phase === "newton" && newton ? `Newton step ${newton.step}, ${newton.scans} scans` : sweep ? `sweep ${sweep}` : blocks ? `block ${block} of ${blocks}` : "";
  return [which, where].filter(Boolean).join(", ");
}

// Seconds of the job when the current lane began: its rows are counted from there.
function runBegan({ lane }) {
  if (!passes.length || !lane || lane.of === 1) return 0;
  const isRun = lanesIn(passes[passes.length - 1]).some((figures) => figures.lane === lane.number);
  const before = passes[passes.length - 1 - (isRun ? lastRun(passes).length : 0)];
  return before ? before.elapsed_seconds : 0;
}

// A rate over such a short time means nothing.
const rate = (count, seconds) => (seconds < 0.05 ? null : whole(count / seconds));

// How a figure is written that `storage/run/figures.py` declares, by its unit.
const UNITS = { "": precise, count: whole, bytes: size, seconds: duration };

// What the page makes of several figures.
const FIGURES = {
  place,
  rows_per_second: (progress) => rate(progress.rows_streamed, progress.elapsed_seconds - runBegan(progress)),
  rows_streamed: (progress) => `${whole(progress.rows_streamed)} ${lanes.length > 1 ? "in these lanes" : "in all"}`,
  lanes_done: ({ lanes_done }) => lanes_done === undefined ? null : whole(lanes_done),
  lanes_running: ({ lane }) => `of ${job.searches ? "at most " : ""}${lane.of}` + (lane.count < lane.of ? `; ${lanesBeingTrained(lane)} now` : ", side by side"),
  eta_seconds: ({ eta_seconds }) => eta_seconds ? `about ${duration(eta_seconds)}` : null,
  so_far: ({ eta_seconds, elapsed_seconds }) => `${duration(elapsed_seconds)} so far${eta_seconds ? "" : "; no telling yet"}`,
};

function showProgress(progress) {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const { figure, unit } = place.dataset, value = progress[figure];
    place.textContent = (figure in FIGURES ? FIGURES[figure](progress) : value === null ? null : UNITS[unit](value)) ?? "–";
  }
  const best = document.getElementById("so-far"), isJudged = Boolean(progress.best_C);
  if (best) [best.hidden, document.getElementById("no-score-yet").hidden] = [!isJudged, isJudged];
  const bar = document.getElementById("block");
  bar.hidden = !progress.blocks;
  if (progress.blocks) bar.value = progress.block / progress.blocks;
  const done = document.getElementById("lanes-done");
  if (done) done.value = progress.lanes_done ?? 0;
}

function showState(state) {
  const badge = document.getElementById("state"), stop = document.getElementById("stop");
  badge.textContent = state;
  badge.className = `badge ${state}`;
  if (stop && !stop.textContent.endsWith("…")) stop.disabled = state !== "running";
}

// Many passes may come at once: the page draws them together.
function addPass(record) {
  // Another attempt repeats passes after its checkpoint.
  if (passes.length && record.pass <= passes[passes.length - 1].pass) passes = passes.filter(({ pass }) => pass < record.pass);
  passes.push(record);
  addSlowdowns(record.slowdowns ?? []);
  for (const place of document.querySelectorAll("[data-pass]")) place.textContent = whole(record[place.dataset.pass]);
  charts.job.running = [];
  drawSoon();
}

// Faster ways that the job gave up since the last pass; each is shown once.
function addSlowdowns(slowdowns) {
  const warnings = document.getElementById("warnings");
  for (const { code, message, hint } of slowdowns) {
    if (warnings.querySelector(`[data-code="${code}"]`)) continue;
    const line = document.createElement("p");
    line.className = "warning";
    line.dataset.code = code;
    const name = document.createElement("code");
    name.textContent = code;
    line.append(`${message}. ${hint} `, name);
    warnings.append(line);
  }
}

// The history has the sweeps and Newton steps of a finished pass; during a pass the page hears of the last one now and then.
function addRunning(progress) {
  const { sweep, solver_phase, newton, lane, elapsed_seconds, gap, dual_objective } = progress;
  const { running } = charts.job, last = running.at(-1), before = last ?? passes.at(-1);
  const step = solver_phase === "newton" && newton && newton.step > (passes.at(-1)?.newton?.at(-1).step ?? 0) ? newton : null;
  if (!(step || sweep) || lane.of > 1 || gap === null || (before && elapsed_seconds <= before.elapsed_seconds)) return;
  if (passes.at(-1)?.dual_objective === dual_objective || (last && (step ? last.step === step.step : last.sweep === sweep))) return;
  running.push({ ...progress, ...step });
  drawSoon();
}

function drawSoon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    charts.draw(passes);
    showLanes(document.getElementById("lanes"), passes, about.hasEnded);
    showMachines(document.getElementById("machines"), passes.at(-1));
  });
}

// Shows which machines worked and which waited in the last round of a job on several.
function showMachines(table, round) {
  if (!table || !round?.machines) return;
  document.getElementById("step").textContent = precise(round.step);
  document.getElementById("pooled").textContent = whole(round.pooled_rows ?? 0);
  table.tBodies[0].replaceChildren(...round.machines.map((machine) => {
    const row = document.createElement("tr");
    const cells = [machine.machine + 1, machine.node, machine.state, machine.seconds.toFixed(2), machine.waited_seconds.toFixed(1),
      size(machine.sent_bytes), size(machine.read_bytes), size(machine.resident_bytes)];
    cells.forEach((text, at) => {
      const cell = row.insertCell();
      cell.textContent = text;
      if (at !== 1 && at !== 2) cell.className = "number";
    });
    return row;
  }));
}

// The end of the curves: the certificate's figures.
function certify({ gap, primal_objective, dual_objective, relative_duality_gap }) {
  const { elapsed_seconds } = passes.at(-1);
  charts.job.certified = { elapsed_seconds, gap, relative_gap_bound: relative_duality_gap, primal_bound: primal_objective, dual_objective };
  drawSoon();
}

// The progress of a job that has ended, by the certificate: it is exact, the last pass is not.
function showCertificate({ gap, relative_duality_gap }) {
  for (const [figure, value] of [["gap", gap], ["relative_gap_bound", relative_duality_gap]])
    for (const place of document.querySelectorAll(`[data-figure=${figure}]`)) place.textContent = value === null ? "–" : precise(value);
}

// A card that its reader has opened stays open when the page loads itself anew.
for (const id of JSON.parse(sessionStorage.getItem(job.id) ?? "[]")) document.getElementById(id)?.setAttribute("open", "");
addEventListener("pagehide", () => {
  const open = [...document.querySelectorAll("details[id][open]")];
  sessionStorage.setItem(job.id, JSON.stringify(open.map(({ id }) => id)));
});

function showRunning(progress) {
  const solver = progress.phase === "training" ? SOLVER_PHASES[progress.solver_phase] : null;
  document.getElementById("phase").textContent = [progress.phase, solver].filter(Boolean).join(": ");
  showProgress(progress);
}

// Figures are here at once: of a job of thousands of lanes the passes, which come first, take seconds.
const sofar = JSON.parse(job.progress);
if (sofar && job.ended === "no") showRunning({ ...sofar, phase: job.phase });

const events = new EventSource(`/v1/jobs/${job.id}/events`);
const on = (kind, action) => events.addEventListener(kind, (event) => action(JSON.parse(event.data)));

on("state", (step) => job.ended === "no" && showState(step.state)); // of a job that has ended, the server shows the last
on("pass", addPass);
on("progress", (progress) => {
  showRunning(progress);
  addRunning(progress);
});
on("end", ({ result }) => {
  events.close();
  if (result && lanes.length <= 1 && passes.length && !document.getElementById("chart-estimate")) certify(result.certificate);
  if (!passes.length) document.getElementById("charts").hidden = true;
  // The server renders the results.
  if (job.ended === "no") location.reload();
});

// Shows the figures of a job that has ended. They do not wait for its passes, which may be megabytes.
function showEnded(ended) {
  if (ended.progress) showProgress({ ...ended.progress, ...(ended.result && { blocks: null, sweep: null, newton: null }) });
  if (ended.result) {
    showCertificate(ended.result.certificate);
    document.querySelector("[data-figure=pass]").textContent = whole(ended.result.passes);
    document.querySelector("[data-figure=place]").textContent = lanes.length > 1 ? `of ${ended.result.lanes.length} lanes` : "";
  }
  const curve = document.getElementById("curve");
  if (curve) showCurve(curve, ended.result, ended.score?.metric);
  const confused = document.getElementById("confusion");
  if (confused) drawConfusion(confused, ended.result.confusion, ended.result.confusion.rows.flat().some((count) => count % 1));
}

if (job.ended === "yes") fetch(`/v1/jobs/${job.id}`).then((answer) => answer.json()).then(showEnded);

onSubmit("resume", async (form, { max_passes, tolerance, relative_gap }) => {
  const numberOrNull = ({ value }) => (value === "" ? null : Number(value));
  const next = await send("POST", form.dataset.path, {
    max_passes: Number(max_passes.value), tolerance: numberOrNull(tolerance),
    ...(relative_gap && { relative_gap: numberOrNull(relative_gap) }),
  });
  location.assign(`/jobs/${next.id}`);
});
