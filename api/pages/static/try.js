"use strict";
// Shows the heaviest weights of a model, a class at a time.

const classChoice = document.querySelector("#heaviest select");
classChoice?.addEventListener("change", () => {
  document.querySelectorAll("#heaviest .card").forEach((table, at) => { table.hidden = at !== Number(classChoice.value); });
});
