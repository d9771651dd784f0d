"use strict";
// The forms, and lists that are kept as they are on the server.

const REFRESH_MILLISECONDS = 3000, MOST_LABELS = 5, MOST_HEAD_BYTES = 1 << 16;

// Answers may overtake each other: one that is older than what is shown would undo a choice.
let asked = 0, shown = 0;

async function refresh() {
  const number = ++asked;
  const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (number < shown) return;
  shown = number;
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(old.id);
    if (old.innerHTML === now.innerHTML || old === document.activeElement) continue;
    const chosen = old.value, ticked = [...old.querySelectorAll(":checked")].map(sameAs), focused = old.contains(document.activeElement) && sameAs(document.activeElement);
    old.replaceChildren(...now.childNodes);
    if (chosen) old.value = chosen;
    for (const box of old.querySelectorAll("[type=checkbox]")) box.checked = ticked.includes(sameAs(box));
    if (focused) [...old.querySelectorAll("a, button, input")].find((element) => sameAs(element) === focused)?.focus();
  }
  suitCompare();
}

// What an element of a list is known by when the list has been made anew.
const sameAs = (element) => element.getAttribute("href") ?? element.dataset.path ?? element.value;

const compare = document.getElementById("compare");

const chosenJobs = () => [...document.querySelectorAll("[name=jobs]:checked")].map(({ value }) => value);

function suitCompare() {
  const { length } = chosenJobs();
  compare.querySelector("button").disabled = length < 2 || length > 5;
}

compare.addEventListener("submit", (event) => {
  event.preventDefault();
  location.assign(`/compare?jobs=${chosenJobs()}`);
});

document.getElementById("job-list").addEventListener("change", suitCompare);
suitCompare();

const upload = document.getElementById("upload");

// What was made of a file, for one to see at once that a column was taken for another.
function found({ name, rows, features, label_type, label_counts, weights }) {
  const labels = Object.keys(label_counts), shown = labels.slice(0, MOST_LABELS).join(", ") + (labels.length > MOST_LABELS ? ", …" : "");
  const kinds = label_type === "string" ? "strings" : "numbers";
  const parts = [`${rows.toLocaleString("en")} rows`, `${features.toLocaleString("en")} features`, labels.length ? `labels ${shown} (${kinds})` : "labels are numbers"];
  return `${name}: ${[...parts, weights ? `weights ${weights.min} to ${weights.max}` : "no weights"].join(", ")}`;
}

// The names of columns in the first line of a table that is plain text; none if it cannot be told.
async function columnsOf(file) {
  const separator = { csv: ",", tsv: "\t" }[file.name.split(".").pop().toLowerCase()];
  if (!separator) return [];
  const [head] = (await file.slice(0, MOST_HEAD_BYTES).text()).split(/\r?\n/);
  return head.split(separator).map((name) => name.trim().replace(/^"(.*)"$/, "$1"));
}

upload.elements.file.addEventListener("change", async () => {
  const [file] = upload.elements.file.files;
  if (!file) return;
  const name = file.name.split(".")[0].toLowerCase().replace(/[^a-z0-9_-]+/g, "-").replace(/^[-_]+/, "");
  upload.elements.name.value ||= name.slice(0, 64);
  // A table's columns are for its owner to name.
  const columns = await columnsOf(file);
  document.getElementById("columns").replaceChildren(...columns.map((column) => new Option(column)));
  if (columns.length) upload.querySelector("details").open = true;
});

// A format has options of its own; n-grams are made of documents only.
function suitFormat() {
  const { format, text_column } = upload.elements;
  const has = (field) => !format.value || field.closest("label").dataset.formats.split(" ").includes(format.value);
  const ofDocuments = format.value === "text" || (has(text_column) && text_column.value !== "");
  for (const label of upload.querySelectorAll("[data-formats]")) {
    label.hidden = !has(label) || ("ofDocuments" in label.dataset && !ofDocuments);
  }
}

upload.addEventListener("input", suitFormat);
upload.addEventListener("reset", () => setTimeout(suitFormat));
suitFormat();

upload.addEventListener("submit", (event) => {
  event.preventDefault();
  const [file] = upload.elements.file.files;
  const bar = upload.querySelector("progress"), status = upload.querySelector("output"), button = upload.querySelector("button");
  const name = upload.elements.name.value;
  const request = new XMLHttpRequest();  // fetch does not tell how much has been sent
  const over = (text, problem) => {
    button.disabled = false;
    bar.hidden = true;
    status.textContent = text;
    showFault(upload, problem);
    refresh();
  };
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    bar.value = loaded / total;
    status.textContent = loaded < total ? `${Math.round(100 * loaded / total)}%` : "reading it in …";
  });
  request.addEventListener("load", () => {
    let content = {};
    try { content = JSON.parse(request.responseText); } catch { content = { detail: "the service's answer is not understood" }; }
    if (request.status !== 201) return over("", content);
    over(found(content), null);
    upload.reset();
    const choice = document.getElementById("dataset-choice");
    refresh().then(() => { choice.value = content.name; });
  });
  request.addEventListener("error", () => over("", { detail: "the upload was cut off" }));
  const options = new URLSearchParams();
  if (upload.elements.format.value) options.set("format", upload.elements.format.value);
  for (const { name, value } of upload.querySelectorAll("label:not([hidden]) > [data-option]")) {
    if (value) options.set(name, value);
  }
  request.open("PUT", `/v1/datasets/${encodeURIComponent(name)}?${options}`);
  request.setRequestHeader("Accept", "application/json");
  button.disabled = true;
  bar.hidden = false;
  bar.value = 0;
  status.textContent = "0%";
  showFault(upload, null);
  request.send(file);
});

const submit = document.getElementById("submit");

const isOfKernel = (solver) => submit.elements.gamma.closest("label").dataset.of.split(" ").includes(solver);

// Of kernel and solver one tells the other.
function suitKernel() {
  const { kernel, solver } = submit.elements, wanted = kernel.value === "rbf";
  if (isOfKernel(solver.value) !== wanted) solver.value = [...solver.options].find(({ value }) => isOfKernel(value) === wanted).value;
  suitSolver();
}

// Every solver has fields and losses of its own.
function suitSolver() {
  const { solver, loss } = submit.elements;
  for (const part of submit.querySelectorAll("[data-of]")) {
    part.hidden = part.disabled = !part.dataset.of.split(" ").includes(solver.value);
  }
  submit.elements.kernel.value = isOfKernel(solver.value) ? "rbf" : "linear";
  if (loss.selectedOptions[0].disabled) loss.value = [...loss.options].find((option) => !option.disabled).value;
}

// What was changed of the solver's own fields; the rest is for the service to choose.
function chosenOptions() {
  const changed = [...submit.querySelectorAll("label[data-of]:not([hidden]) [name]")].filter((field) => field.value !== field.dataset.default);
  const words = { true: true, false: false, "": null };
  return Object.fromEntries(changed.map(({ name, type, value }) => [name, value in words ? words[value] : type === "number" ? Number(value) : value]));
}

// One number, or several; throws a problem.
function valuesOfC(text) {
  const words = text.split(/[\s,;]+/).filter(Boolean), values = words.map(Number);
  const wrong = words.find((word, at) => !Number.isFinite(values[at]));
  if (wrong !== undefined || !words.length) throw { code: "C_range", detail: `'${wrong ?? ""}' is not a number`, hint: "Write 1, or several: 0.01, 0.1, 1" };
  return words.length > 1 ? values : values[0];
}

// What only a cross-validation has.
function suitFolds() {
  const hasFolds = submit.elements.folds.value !== "" || submit.elements.probability.value !== "";
  for (const field of submit.querySelectorAll("[data-of-folds]")) field.disabled = !hasFolds;
}

// As a job says it: a field that is not there, or is disabled, has its default.
function chosenFolds() {
  const { folds, select_by, refit, keep, probability, multiclass } = submit.elements, spec = {};
  if (folds.value !== "") spec.folds = Number(folds.value);
  if (probability.value !== "") spec.probability = probability.value;
  if (!select_by.disabled) Object.assign(spec, { select_by: select_by.value, refit: refit.value === "true", keep: keep.value });
  if (multiclass) spec.multiclass = multiclass.value;
  return spec;
}

submit.elements.solver.addEventListener("change", suitSolver);
submit.elements.kernel.addEventListener("change", suitKernel);
submit.elements.C.addEventListener("input", ({ target }) => {
  // Several values are there to choose from.
  if (/\d[\s,;]+\S/.test(target.value)) document.getElementById("choosing").open = true;
});
for (const name of ["folds", "probability"]) submit.elements[name].addEventListener("input", suitFolds);
suitSolver();
suitFolds();

submit.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = submit.elements, number = (name) => Number(given[name].value);
  try {
    showFault(submit, null);
    const spec = {
      dataset: given.dataset.value,
      solver: given.solver.value,
      loss: given.loss.value,
      C: valuesOfC(given.C.value),
      tolerance: given.tolerance.value === "" ? null : number("tolerance"),
      cache_bytes: Math.round(number("cache_mib") * 1048576),
      features: mapsOf(given.features.value),
      bias: given.bias.value === "" ? null : number("bias"),
      threads: given.threads.value === "" ? null : number("threads"),
      max_passes: number("max_passes"),
      seed: number("seed"),
      ...chosenFolds(),
      ...chosenOptions(),
    };
    const job = await send("POST", "/v1/jobs", spec);
    location.assign(`/jobs/${job.id}`);
  } catch (problem) {
    showFault(submit, problem);
  }
});

// "scale, pairs", or JSON where maps have options; what is neither is refused by the service.
function mapsOf(text) {
  try {
    if (text.trim().startsWith("[")) return JSON.parse(text);
  } catch { return [text]; }
  return text.split(",").map((name) => name.trim()).filter(Boolean);
}

setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MILLISECONDS);
