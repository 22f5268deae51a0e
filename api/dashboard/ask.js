// One question at a time, answered yes or no; Escape says no.
import { element, fill } from "/assets/format.js";

export function confirmed({ title, text, names = [], yes }) {
  const dialog = document.getElementById("ask");
  if (dialog.open) return Promise.resolve(false);
  document.getElementById("ask-title").textContent = title;
  document.getElementById("ask-text").textContent = text;
  const list = document.getElementById("ask-names");
  list.hidden = names.length === 0;
  fill(list, ...names.map((name) => element("li", {}, name)));
  document.getElementById("ask-yes").textContent = yes;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
