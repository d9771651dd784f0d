"use strict";
// A model's page: its evaluation on a dataset.

const form = document.getElementById("evaluate"), found = document.getElementById("found");
const precise = (number) => (number === null ? "–" : Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }));
const whole = (number) => number.toLocaleString("en");

const FIGURES = [
  ["rows", "rows", whole],
  ["accuracy", "accuracy", percent],
  ["balanced_accuracy", "balanced accuracy", percent],
  ["auc", "area under the ROC curve", precise],
  ["log_loss", "log loss", precise],
  ["brier_score", "Brier score", precise],
  ["mean_squared_error", "mean squared error", precise],
  ["r_squared", "R²", precise],
  ["objective", "objective on these rows", precise],
  ["unknown_features", "values of unknown features", whole],
];

function added(parent, name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return parent.appendChild(element);
}

function showFigures(evaluation) {
  const list = added(found, "dl");
  for (const [name, title, shown] of FIGURES) {
    if (!(name in evaluation)) continue;
    const pair = added(list, "div");
    added(pair, "dt", title);
    added(pair, "dd", shown(evaluation[name])).dataset.figure = name;
  }
}

function addPicture(charts, caption, draw) {
  const figure = added(charts, "figure", undefined, "card");
  added(figure, "figcaption", caption);
  draw(figure);
}

function showPictures({ confusion, reliability }) {
  const charts = added(found, "div", undefined, "charts");
  if (confusion && confusion.rows && confusion.labels.length <= MOST_DRAWN) {
    addPicture(charts, "What rows are, and what they are taken for", (figure) => drawConfusion(figure, confusion));
  }
  if (reliability) {
    const of = confusion.labels.length === 2 ? `of ${confusion.labels[0]}` : "of the class predicted";
    addPicture(charts, `Reliability of the probability ${of}`, (figure) => drawReliability(figure, reliability));
  }
}

function showClasses({ classes }) {
  if (!classes) return;
  const table = added(added(found, "div", undefined, "scroll"), "table");
  const head = added(added(table, "thead"), "tr");
  ["class", "rows", "precision", "recall", "F1"].forEach((title, at) => added(head, "th", title, at ? "number" : ""));
  const body = added(table, "tbody");
  for (const { label, rows, precision, recall, f1 } of classes) {
    const line = added(body, "tr");
    added(line, "td", label);
    [whole(rows), ...[precision, recall, f1].map(percent)].forEach((text) => added(line, "td", text, "number"));
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button"), status = form.querySelector("output");
  button.disabled = true;
  status.textContent = "reading all rows …";
  try {
    // form.dataset is the choice of that name.
    const evaluation = await send("POST", form.getAttribute("data-path"), { dataset: form.elements.dataset.value });
    found.replaceChildren();
    showFigures(evaluation);
    showPictures(evaluation);
    showClasses(evaluation);
    showFault(form.parentElement, null);
  } catch (problem) {
    showFault(form.parentElement, problem);
  }
  status.textContent = "";
  button.disabled = false;
});
