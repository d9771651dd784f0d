"use strict";
// The forms, and lists that are kept as they are on the server.

const REFRESH_MILLISECONDS = 3000;

async function refresh() {
  const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(old.id);
    if (old.innerHTML === now.innerHTML || old === document.activeElement) continue;
    const chosen = old.value;
    old.replaceChildren(...now.childNodes);
    if (chosen) old.value = chosen;
  }
}

const upload = document.getElementById("upload");

upload.elements.file.addEventListener("change", () => {
  const [file] = upload.elements.file.files;
  if (!file || upload.elements.name.value) return;
  const name = file.name.split(".")[0].toLowerCase().replace(/[^a-z0-9_-]+/g, "-").replace(/^[-_]+/, "");
  upload.elements.name.value = name.slice(0, 64);
});

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
    over(`${content.name}: ${content.rows.toLocaleString("en")} rows`, null);
    upload.reset();
    const choice = document.getElementById("dataset-choice");
    refresh().then(() => { choice.value = content.name; });
  });
  request.addEventListener("error", () => over("", { detail: "the upload was cut off" }));
  const options = new URLSearchParams();
  for (const option of ["format", "label_column", "label_type", "weight_column", "group_column", "index_base", "on_bad_row"]) {
    if (upload.elements[option].value) options.set(option, upload.elements[option].value);
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

// Every solver has fields and losses of its own.
function suitSolver() {
  const { solver, loss } = submit.elements;
  for (const part of submit.querySelectorAll("[data-of]")) {
    part.hidden = part.disabled = !part.dataset.of.split(" ").includes(solver.value);
  }
  if (loss.selectedOptions[0].disabled) loss.value = [...loss.options].find((option) => !option.disabled).value;
}

// What was changed of the solver's own fields; the rest is for the service to choose.
function chosenOptions() {
  const changed = [...submit.querySelectorAll("label[data-of]:not([hidden]) [name]")].filter((field) => field.value !== field.dataset.default);
  const words = { true: true, false: false, "": null };
  return Object.fromEntries(changed.map(({ name, type, value }) => [name, value in words ? words[value] : type === "number" ? Number(value) : value]));
}

submit.elements.solver.addEventListener("change", suitSolver);
suitSolver();

submit.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = submit.elements, number = (name) => Number(given[name].value);
  const spec = {
    dataset: given.dataset.value,
    solver: given.solver.value,
    loss: given.loss.value,
    C: number("C"),
    tolerance: given.tolerance.value === "" ? null : number("tolerance"),
    cache_bytes: Math.round(number("cache_mib") * 1048576),
    bias: given.bias.value === "" ? null : number("bias"),
    threads: given.threads.value === "" ? null : number("threads"),
    max_passes: number("max_passes"),
    seed: number("seed"),
    ...chosenOptions(),
  };
  try {
    showFault(submit, null);
    const job = await send("POST", "/v1/jobs", spec);
    location.assign(`/jobs/${job.id}`);
  } catch (problem) {
    showFault(submit, problem);
  }
});

setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MILLISECONDS);
