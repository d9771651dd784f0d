"use strict";
// Buttons that send a request, and how a problem is shown. Used by all pages.

// The first fault line in an element: shows a problem, or nothing.
function showFault(place, problem) {
  const line = place.querySelector(".fault[role=alert]") || document.querySelector(".fault[role=alert]");
  line.hidden = !problem;
  if (!problem) return;
  const at = problem.at && problem.at.line ? `line ${problem.at.line}: ` : "";
  line.textContent = at + problem.detail + (problem.hint ? `. ${problem.hint}` : "");
}

// The answer as JSON, null if there is none; throws a problem.
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
