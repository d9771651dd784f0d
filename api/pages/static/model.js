"use strict";
// Shows the evaluation of a model on a dataset.

const MOST_LISTED = 40, MOST_PAIRS = 10;
const form = document.getElementById("evaluate"), found = document.getElementById("found");
const whole = (number) => number.toLocaleString("en");

const FIGURES = [
  ["rows", "rows", whole],
  ["weight_sum", "their weight", inShort],
  ["accuracy", "accuracy", percent],
  ["balanced_accuracy", "balanced accuracy", percent],
  ["f1", "F1", percent],
  ["auc", "area under the ROC curve", inShort],
  ["average_precision", "average precision", inShort],
  ["log_loss", "log loss", inShort],
  ["brier_score", "Brier score", inShort],
  ["mse", "mean squared error", inShort],
  ["mae", "mean absolute error", inShort],
  ["r2", "R²", inShort],
  ["objective", "objective on these rows", inShort],
  ["unknown_features", "values of unknown features", whole],
];

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

function showPictures({ confusion, reliability, weighted, curves }) {
  const charts = added(found, "div", undefined, "charts");
  if (confusion && confusion.rows && confusion.labels.length <= MOST_DRAWN) {
    addPicture(charts, "Confusion", (figure) => drawConfusion(figure, confusion, weighted));
  }
  if (curves) {
    const { threshold, true_positive_rate: recall, false_positive_rate: wrong, precision } = curves;
    const told = (at, x, y) => `decision value ${threshold[at] === null ? "above all" : `${inShort(threshold[at])} or more`}: ${x}, ${y}`;
    addPicture(charts, "ROC curve", (figure) => drawRates(figure, ["false positive rate", wrong], ["true positive rate", recall], told));
    addPicture(charts, "Precision and recall", (figure) => drawRates(figure, ["recall", recall], ["precision", precision], told));
  }
  if (reliability) {
    const of = confusion.labels.length === 2 ? `of ${confusion.labels[0]}` : "of the class predicted";
    addPicture(charts, `Reliability of the probability ${of}`, (figure) => drawReliability(figure, reliability));
  }
}

// A slider over the points of the curves: what a threshold there does to the rows, and a model that is cut there.
function showThreshold({ curves, classes, confusion, weighted }) {
  if (!curves) return;
  const { threshold, true_positive_rate: recall, false_positive_rate: wrong, precision } = curves;
  const [P, N] = classes.map(({ rows, weight }) => weight ?? rows), last = threshold.length - 1;
  const place = added(found, "section"), figure = document.createElement("figure");
  added(place, "h3", "Threshold");
  const slider = added(place, "input"), told = added(place, "output"), use = added(place, "button", "Use this threshold");
  place.id = "threshold";
  figure.className = "card";
  place.appendChild(figure);
  // Just below the row's decision value, so that rounding does not lose the row.
  const cut = (at) => (at ? threshold[at] - 1e-9 * Math.max(1, Math.abs(threshold[at])) : threshold[1] + 1e-9 * Math.max(1, Math.abs(threshold[1])));
  const show = () => {
    const at = Number(slider.value), tp = recall[at] * P, fp = wrong[at] * N, rounded = weighted ? (count) => count : Math.round;
    told.textContent = `${confusion.labels[0]} above ${inShort(cut(at))}: precision ${percent(precision[at])}, recall ${percent(recall[at])}`;
    figure.replaceChildren();
    drawConfusion(figure, { labels: confusion.labels, rows: [[tp, P - tp], [fp, N - fp]].map((row) => row.map(rounded)) }, weighted);
  };
  const now = Math.max(0, threshold.findLastIndex((value) => value !== null && value > 0));
  Object.assign(slider, { type: "range", min: 0, max: last, value: now });
  slider.setAttribute("aria-label", "threshold");
  slider.addEventListener("input", show);
  use.addEventListener("click", async () => {
    use.disabled = true;
    try {
      const made = await send("POST", form.getAttribute("data-path").replace(/evaluate$/, "threshold"), { threshold: cut(Number(slider.value)) });
      location.assign(location.pathname.replace(/[^/]+$/, made.id));
    } catch (problem) {
      showFault(form.parentElement, problem);
      use.disabled = false;
    }
  });
  show();
}

// Makes a table with a caption; columns after the first `texts` ones are numbers.
function addTable(place, id, caption, titles, texts, lines) {
  const around = added(place, "div", undefined, "scroll"), table = added(around, "table");
  // The arrow keys scroll what is wider than the screen.
  around.tabIndex = 0;
  around.setAttribute("role", "region");
  around.setAttribute("aria-label", caption || "classes");
  table.id = id;
  if (caption) added(table, "caption", caption);
  const kind = (at) => (at < texts ? "" : "number");
  const head = added(added(table, "thead"), "tr"), body = added(table, "tbody");
  titles.forEach((title, at) => added(head, "th", title, kind(at)));
  for (const line of lines) {
    const row = added(body, "tr");
    line.forEach((text, at) => added(row, "td", text, kind(at)));
  }
}

// With many classes the picture has no numbers, so a table lists the pairs confused most.
function showConfused({ confusion, weighted }) {
  if (!confusion?.rows || confusion.labels.length <= MOST_WITH_NUMBERS) return;
  const { labels, rows } = confusion;
  const pairs = rows.flatMap((row, is) => row.map((count, said) => ({ is, said, count })).filter(({ said, count }) => said !== is && count));
  const most = pairs.sort((one, other) => other.count - one.count).slice(0, MOST_PAIRS);
  const shareOf = ({ is, count }) => percent(count / rows[is].reduce((sum, each) => sum + each, 0));
  const lines = most.map((pair) => [labels[pair.is], labels[pair.said], whole(pair.count), shareOf(pair)]);
  if (lines.length) addTable(found, "confused", "Most often confused", ["is", "predicted as", weighted ? "weight" : "rows", "of its class"], 2, lines);
}

function showDoubtful({ doubtful }) {
  const lines = (doubtful ?? []).map(({ row, label, predicted, lead }) => [label, predicted, whole(row), inShort(lead)]);
  if (lines.length) addTable(found, "doubtful", "Labels that may be wrong: the model is surest of another", ["label", "looks like", "row", "by"], 2, lines);
}

function showClasses({ classes }) {
  if (!classes) return;
  const lines = classes.map(({ label, rows, ...shares }) => [label, whole(rows), ...["precision", "recall", "f1"].map((name) => percent(shares[name]))]);
  let place = found;
  if (classes.length > MOST_LISTED) {
    place = added(found, "details");
    added(place, "summary", `Each of ${whole(classes.length)} classes`);
  }
  addTable(place, "classes", "", ["class", "rows", "precision", "recall", "F1"], 1, lines);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button"), status = form.querySelector("output");
  button.disabled = true;
  status.textContent = "reading all rows …";
  try {
    // `form.dataset` would be the field of that name.
    const evaluation = await send("POST", `${form.getAttribute("data-path")}?curves=true`, { dataset: form.elements.dataset.value });
    found.replaceChildren();
    showFigures(evaluation);
    showPictures(evaluation);
    showThreshold(evaluation);
    showConfused(evaluation);
    showDoubtful(evaluation);
    showClasses(evaluation);
    showFault(form.parentElement, null);
  } catch (problem) {
    showFault(form.parentElement, problem);
  }
  status.textContent = "";
  button.disabled = false;
});
