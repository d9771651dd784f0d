"use strict";
// Draws the curves of several jobs in one picture.

const main = document.getElementById("side-by-side");
const drawnJobs = JSON.parse(main.dataset.jobs);

// Passes and sweeps; the certificate's figures end the curve, if there are any: they are exact, those of the last pass are not.
function recordsOf({ passes, certificate }) {
  const records = withSweeps(passes);
  if (!certificate) return records;
  const { gap, relative_duality_gap } = certificate;
  return records.with(-1, { ...records.at(-1), gap, relative_gap_bound: relative_duality_gap });
}

// A line for each job over the seconds of all jobs.
function comparedBy(of, among = recordsOf) {
  return (jobs) => {
    const records = jobs.map(among);
    const seconds = [...new Set(records.flat().map((record) => record.elapsed_seconds))].sort((one, other) => one - other);
    const lines = records.map((found) => {
      const values = new Map(found.map((record) => [record.elapsed_seconds, of(record) ?? undefined]));
      return seconds.map((at) => values.get(at));
    });
    const series = jobs.map(({ name }, at) => ({ label: name, color: LANE_COLORS[at], holds: true, spans: true }));
    return { series, data: [seconds, ...lines] };
  };
}

const COMPARED = [
  { id: "chart-gap", log: true, show: precise, x: "seconds", lines: comparedBy((record) => positive(record.gap)) },
  { id: "chart-bound", log: true, show: precise, x: "seconds", lines: comparedBy((record) => positive(record.relative_gap_bound)) },
  { id: "chart-objective", show: exact, x: "seconds", lines: comparedBy((record) => record.dual_objective, ({ passes }) => withSweeps(worstOfLast(passes))) },
];

const charts = new Charts({}, COMPARED);

async function drawJobs() {
  const histories = await Promise.all(drawnJobs.map(({ id }) => send("GET", `/v1/jobs/${id}/history`)));
  const jobs = drawnJobs.map((job, at) => ({ ...job, passes: histories[at].passes })).filter(({ passes }) => passes.length);
  for (const { id, passes } of jobs) {
    document.querySelector(`[data-seconds=${id}]`).textContent = passes.at(-1).elapsed_seconds.toPrecision(3);
  }
  charts.draw(jobs);
}

drawJobs().catch((problem) => showFault(main, problem));
