"use strict";
// Runs the forms, and keeps the lists as they are on the server.

const REFRESH_MILLISECONDS = 3000, MOST_LABELS = 5, MOST_HEAD_BYTES = 1 << 16;

// Answers may overtake each other: an older one than the page shows would undo a choice.
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

// Identifies an element of a list after the list was made anew.
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

// Shows what the service made of a file, so that a column taken for another is noticed at once.
function found({ name, rows, features, label_type, label_counts, weights }) {
  const labels = Object.keys(label_counts), shown = labels.slice(0, MOST_LABELS).join(", ") + (labels.length > MOST_LABELS ? ", …" : "");
  const kinds = label_type === "string" ? "strings" : "numbers";
  const parts = [`${rows.toLocaleString("en")} rows`, `${features.toLocaleString("en")} features`, labels.length ? `labels ${shown} (${kinds})` : "labels are numbers"];
  return `${name}: ${[...parts, weights ? `weights ${weights.min} to ${weights.max}` : "no weights"].join(", ")}`;
}

// The column names in the first line of a table of plain text; none if there is no telling.
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
  // Only the user knows what the columns of a table are.
  const columns = await columnsOf(file);
  document.getElementById("columns").replaceChildren(...columns.map((column) => new Option(column)));
  if (columns.length) upload.querySelector("details").open = true;
});

// Shows the options of the chosen format; only documents have n-grams.
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
  const request = new XMLHttpRequest();  // fetch does not report how much it has sent
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

// `submit.dataset` would be the field of that name.
const kernelSolvers = submit.getAttribute("data-kernel-solvers").split(" ");

// On the page a tenth of the rows judges a model unless somebody decides otherwise.
submit.elements.validation.value = "0.1";
submit.elements.folds.addEventListener("input", ({ target }) => { if (target.value) submit.elements.validation.value = ""; });

// Probabilities need folds, too.
const valueOf = (name) => submit.elements[name].value || (name === "folds" ? submit.elements.probability.value : "");

const isFor = (needs) => Object.entries(JSON.parse(needs)).some(([name, values]) => values.length ? values.includes(valueOf(name)) : valueOf(name) !== "");

function suit(part) {
  part.hidden = part.disabled = !isFor(part.dataset.needs);
  for (const field of part.querySelectorAll("[name]")) field.disabled = part.hidden;
}

// Hides losses that the solver does not have, then fields that need other values of other fields.
function suitNeeds() {
  const { loss } = submit.elements;
  loss.querySelectorAll("[data-needs]").forEach(suit);
  if (loss.selectedOptions[0].disabled) loss.value = [...loss.options].find((option) => !option.disabled).value;
  submit.querySelectorAll("label[data-needs]").forEach(suit);
}

// A kernel has its own solvers: each of the two fields follows the other.
submit.addEventListener("input", ({ target }) => {
  const { kernel, solver } = submit.elements, hasKernel = (value) => kernelSolvers.includes(value);
  if (target === solver) kernel.value = hasKernel(solver.value) ? "rbf" : "linear";
  if (target === kernel && hasKernel(solver.value) !== (kernel.value === "rbf")) {
    solver.value = [...solver.options].find(({ value }) => hasKernel(value) === (kernel.value === "rbf")).value;
  }
  // A tolerance alone ends a job, until a relative gap is written beside it.
  const { tolerance, relative_gap } = submit.elements;
  if (target === tolerance) relative_gap.value = tolerance.value === "" ? relative_gap.dataset.default : "";
  // Several values of C are compared on folds.
  if (target.name === "C" && /\d[\s,;]+\S/.test(target.value)) document.getElementById("choosing").open = true;
  suitNeeds();
});
suitNeeds();

// Converts the text of a field by the field's kind.
const READ = {
  choice: (text) => ({ true: true, false: false })[text] ?? text,
  number: Number,
  size: (text) => Math.round(Number(text) * 1048576),
  list: namesOrJson,
  words: numberOrWords,
};

// "scale, pairs", or JSON where names have options; the service refuses anything else.
function namesOrJson(text) {
  try {
    if (text.trim().startsWith("[")) return JSON.parse(text);
  } catch { return [text]; }
  return text.split(",").map((name) => name.trim()).filter(Boolean);
}

// One number or several, or a word if there is no number.
function numberOrWords(text, name) {
  const words = text.split(/[\s,;]+/).filter(Boolean), values = words.map(Number);
  const wrong = words.find((word, at) => !Number.isFinite(values[at]));
  if (words.length === 1 && wrong !== undefined) return wrong;
  if (wrong !== undefined || !words.length) throw { code: `${name}_range`, detail: `'${wrong ?? ""}' is not a number`, hint: "Write 1, or several: 0.01, 0.1, 1" };
  return words.length > 1 ? values : values[0];
}

// The fields that were changed; the service fills in the defaults of the others. What the relative gap is by default depends on the tolerance.
function chosenFields() {
  const { tolerance, relative_gap } = submit.elements, hasTolerance = tolerance.value !== tolerance.dataset.default;
  const isChosen = (field) => field.value !== field.dataset.default || (field === relative_gap && hasTolerance);
  const changed = [...submit.querySelectorAll("[data-kind]:not(:disabled)")].filter(isChosen);
  return Object.fromEntries(changed.map(({ name, value, dataset }) => [name, value === "" ? null : READ[dataset.kind](value, name)]));
}

onSubmit("submit", async (form, { dataset }) => {
  const job = await send("POST", "/v1/jobs", { dataset: dataset.value, ...chosenFields() });
  location.assign(`/jobs/${job.id}`);
});

setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MILLISECONDS);
