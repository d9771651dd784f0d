"use strict";
// Submits a prediction of files, and keeps the parts of a page as they are on the server.

const REFRESH_MILLISECONDS = 2000;

const isLive = (element) => element.dataset.live === "yes";

// Identifies a link or button of a part after the part was made anew.
const sameAs = (element) => element.getAttribute("href") ?? element.dataset.path;

async function refresh() {
  const parts = [...document.querySelectorAll("[data-live]")].filter(isLive);
  if (!parts.length || document.hidden) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of parts) {
    const now = fresh.getElementById(old.id);
    if (!now || old.innerHTML === now.innerHTML || old.querySelector(".fault[role=alert]:not([hidden])")) continue;
    const focused = old.contains(document.activeElement) && sameAs(document.activeElement);
    old.replaceChildren(...now.childNodes);
    if (!isLive(now)) delete old.dataset.live;
    if (focused) [...old.querySelectorAll("a, button")].find((element) => sameAs(element) === focused)?.focus();
  }
}

setInterval(refresh, REFRESH_MILLISECONDS);

onSubmit("predict", async (form) => {
  const text = (name) => form.elements.namedItem(name)?.value.trim() ?? "";
  const words = (name) => text(name).split(",").map((word) => word.trim()).filter(Boolean);
  const asked = { model: text("model"), destination: text("destination"), keep: words("keep") };
  for (const name of ["dataset", "import", "format"]) if (text(name)) asked[name] = text(name);
  if (text("outputs")) asked.outputs = [text("outputs")];
  const { id } = await send("POST", "/v1/predictions", asked);
  location.assign(`/predictions/${id}`);
});
