"use strict";
// Shows the heaviest weights of a model, a class at a time, and predicts a row of a form, or a file, with reasons.

const MOST_CLASSES = 12;
const trial = document.getElementById("trial"), answer = document.getElementById("answer"), fileInput = trial.querySelector("[type=file]");
const { path: predictPath, kind, explain } = trial.dataset;
const TYPES = { libsvm: "text/libsvm", fasta: "text/x-fasta" };  // of rows that are written as text

const classChoice = document.querySelector("#heaviest select");
classChoice?.addEventListener("change", () => {
  document.querySelectorAll("#heaviest .card").forEach((table, at) => { table.hidden = at !== Number(classChoice.value); });
});

// Returns the body of the request for the row of the form, and its type.
function rowOfForm() {
  const text = trial.querySelector("textarea");
  if (text) return kind === "text" ? [JSON.stringify({ documents: [text.value] }), "application/json"] : [text.value, TYPES[kind] ?? "text/csv"];
  const fields = [...trial.querySelectorAll(".fields input, .fields select")];
  return [JSON.stringify({ rows: [fields.map(({ type, value }) => (value === "" ? null : type === "number" ? Number(value) : value))] }), "application/json"];
}

async function predicted(body, type, accept, query = "") {
  const headers = type ? { Accept: accept, "Content-Type": type } : { Accept: accept };
  const found = await fetch(predictPath + query, { method: "POST", headers, body }).catch(() => { throw { detail: "the service does not answer" }; });
  if (!found.ok) throw await found.json();
  return found;
}

function showPrediction({ labels, against, predictions: [first] }) {
  const { label, decision_value: value, probability } = first, several = Array.isArray(value);
  answer.replaceChildren();
  added(added(answer, "p", undefined, "score"), "strong", label ?? inShort(first.value));
  const list = added(answer, "dl");
  const add = (title, number, chance) => {
    const pair = added(list, "div");
    added(pair, "dt", title);
    added(pair, "dd", `${number === null ? "–" : inShort(number)}${chance === undefined ? "" : `, probability ${percent(chance)}`}`);
  };
  if (several) {
    const order = value.map((_, at) => at).sort((one, other) => value[other] - value[one]).slice(0, MOST_CLASSES);
    for (const at of order) add(`decision value of ${labels[at]}`, value[at], probability?.[at]);
  } else if (label !== undefined) add("decision value", value, probability?.[labels.indexOf(label)]);
  if (!first.contributions) return;
  const of = several ? ` of ${label}` : labels ? `, which above 0 means ${labels[0]}` : "";
  showReasons(first, several ? value[labels.indexOf(label)] : value ?? first.value, against, `Parts of the decision value${of}`);
}

// The base value, the contributions and what is left of them add up to the decision value.
function showReasons({ base_value: base, contributions }, total, against, caption) {
  const around = added(answer, "div", undefined, "scroll"), table = added(around, "table");
  table.id = "reasons";
  added(table, "caption", caption);
  const parts = Object.entries(contributions), most = Math.max(...parts.map(([, part]) => Math.abs(part)));
  const add = (name, part, share) => {
    const row = added(table, "tr");
    added(row, "th", name, "wrap").scope = "row";
    added(row, "td", inShort(part), "number");
    const cell = added(row, "td");
    if (share === undefined) return;
    const picture = drawn(cell, "svg", { class: `share sided${share < 0 ? " against" : ""}`, viewBox: "-100 0 200 10", preserveAspectRatio: "none", "aria-hidden": true });
    drawn(picture, "rect", { x: Math.min(0, 100 * share), width: Math.abs(100 * share), height: 10 });
  };
  add(against === "mean" ? "mean of the training rows" : "a row without features", base);
  for (const [name, part] of parts) add(name, part, part / most);
  const rest = parts.reduce((left, [, part]) => left - part, total - base);
  if (Math.abs(rest) > 1e-9 * most) add("all other features", rest);
}

// Returns the rows of a file with their labels: a column more of a table, the first field of other lines. Where lines are
// no rows, returns the labels alone.
function labelled(text, labels) {
  const lines = text.trimEnd().split(/\r?\n/), heading = lines.length - labels.length;
  if (heading === 0 && kind === "libsvm") return lines.map((line, at) => line.replace(/^\S+/, labels[at]));
  if (heading === 0 && kind === "text") return lines.map((line, at) => `${labels[at]}\t${line}`);
  if (kind !== "table" || (heading !== 0 && heading !== 1)) return labels;
  const mark = ["\t", ";", ","].find((each) => lines[0].includes(each)) ?? ",";
  return lines.map((line, at) => `${line}${mark}${at < heading ? "predicted" : labels[at - heading]}`);
}

async function predictFile(file) {
  const labels = (await (await predicted(new Blob([file]), "", "text/plain")).text()).trimEnd().split("\n");
  const link = added(answer, "a", `Download ${labels.length.toLocaleString("en")} rows with labels`, "button");
  link.href = URL.createObjectURL(new Blob([labelled(await file.text(), labels).join("\n"), "\n"]));
  link.download = `predicted-${file.name.replace(/\.(gz|zst|bz2|xz|parquet|arrow|orc|npz)$/, ".txt")}`;
}

async function tell(work) {
  const status = trial.querySelector("output");
  answer.replaceChildren();
  status.textContent = "predicting …";
  try {
    await work();
    showFault(trial.parentElement, null);
  } catch (problem) {
    showFault(trial.parentElement, problem);
  }
  status.textContent = "";
}

trial.addEventListener("submit", (event) => {
  event.preventDefault();
  tell(async () => showPrediction(await (await predicted(...rowOfForm(), "application/json", `?explain=${explain}`)).json()));
});
fileInput.addEventListener("change", () => fileInput.files[0] && tell(() => predictFile(fileInput.files[0])));
trial.parentElement.addEventListener("dragover", (event) => event.preventDefault());
trial.parentElement.addEventListener("drop", (event) => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) tell(() => predictFile(file));
});
