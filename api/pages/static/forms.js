"use strict";
// Sends the requests of buttons, and shows problems. All pages load it.

// Problem code -> field of the form, where the code does not begin with the field's name.
const FIELDS = {
  lanes: "C", cache: "cache_bytes", too_many_classes: "loss", single_class: "dataset", unknown_dataset: "dataset",
  not_ready: "dataset", dataset_exists: "name", too_many_labels: "label_column", same_column: "weight_column",
  too_many_categories: "categorical", column_type: "categorical", not_numeric: "categorical",
  columns_differ: "drop_columns", header_differs: "header", column_ambiguous: "label_column",
};

// The field of a form that a problem is about: its name begins the code, or the sentence of a wrong type.
function faultyField(form, { code = "", detail }) {
  const named = (name) => form.elements.namedItem(FIELDS[name] ?? name);
  const words = code.split("_"), names = words.map((_, at) => words.slice(0, words.length - at).join("_"));
  const field = names.map(named).find(Boolean) ?? (code === "wrong_type" ? named(detail.split(":")[0]) : undefined);
  return field && field.closest("label") && !field.closest("[hidden]") ? field : undefined;
}

// Opens the folded parts of the page around a field.
function uncover(field) {
  for (let around = field.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
}

// The browser can show its own complaint only at a visible field.
document.addEventListener("invalid", ({ target }) => uncover(target), true);

// Shows a problem at its field until the field is changed.
function showAtField(field, text) {
  const line = document.createElement("small");
  line.className = "at fault";
  line.setAttribute("role", "alert");
  line.textContent = text;
  field.closest("label").append(line);
  uncover(field);
  field.setAttribute("aria-invalid", "true");
  field.focus();
  field.addEventListener("input", () => forgetField(field), { once: true });
}

function forgetField(field) {
  field.removeAttribute("aria-invalid");
  field.closest("label").querySelector(".at.fault")?.remove();
}

// Shows a problem at its field, else in the first fault line of an element; null clears it.
function showFault(place, problem) {
  place.querySelectorAll("[aria-invalid]").forEach(forgetField);
  const line = place.querySelector(".fault[role=alert]") || document.querySelector(".fault[role=alert]");
  line.hidden = true;
  if (!problem) return;
  const at = problem.at && problem.at.line ? `line ${problem.at.line}: ` : "";
  const text = at + problem.detail + (problem.hint ? `. ${problem.hint}` : "");
  const field = place.elements && faultyField(place, problem);
  if (field) return showAtField(field, text);
  line.hidden = false;
  line.textContent = text;
}

// Returns the answer as JSON, null if it is empty; throws a problem.
async function send(method, path, body) {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options).catch(() => { throw { detail: "the service does not answer" }; });
  const text = await answer.text();
  const content = text ? JSON.parse(text) : null;
  if (!answer.ok) throw content;
  return content;
}

// Calls `request` when the form with this id, if there is one, is submitted. Shows a problem in the form or beside it.
function onSubmit(id, request) {
  const form = document.getElementById(id), place = form?.querySelector(".fault[role=alert]") ? form : form?.parentElement;
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      showFault(place, null);
      await request(form, form.elements);
    } catch (problem) {
      showFault(place, problem);
    }
    button.disabled = false;
  });
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-method]");
  if (!button || (button.dataset.confirm && !confirm(button.dataset.confirm))) return;
  button.disabled = true;
  try {
    await send(button.dataset.method, button.dataset.path);
    if (button.dataset.then) location.assign(button.dataset.then);
    else location.reload();
  } catch (problem) {
    button.disabled = false;
    showFault(button.closest("section"), problem);
  }
});
