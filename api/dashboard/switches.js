// The switches: what each runs, what was set on it from here, and whether somebody else has set it since.
import { count, element, keep, tell, watermark } from "/assets/format.js";
import { act, call, orNothing, throttled } from "/assets/service.js";

// Each look reads every switch of the fabric, so it is not taken often.
const EVERY_MS = 5_000;
const card = document.getElementById("switches");
const region = card.querySelector(".scroll");

export const showSwitches = throttled(async () => {
  if (document.hidden) return;
  const found = await orNothing(call("/v1/switches"));
  if (found) show(found);
}, EVERY_MS);

function show(switches) {
  card.hidden = switches.length === 0;
  const [drifted, away] = [switches.filter((one) => one.drifted), switches.filter((one) => !one.reachable)];
  tell(document.getElementById("switches-note"), [
    `${count(switches.length)} in all`,
    ...(drifted.length ? [`${count(drifted.length)} drifted`] : []),
    ...(away.length ? [`${count(away.length)} not reachable`] : []),
  ].join(", "));
  const urgency = (one) => (one.drifted ? 0 : one.reachable ? 2 : 1);
  const views = [...switches].sort((one, other) => urgency(one) - urgency(other)).map(view);
  keep(card.querySelector("tbody"), views, row);
}

// Only what is shown, so that a row whose reading is merely newer stays as it is.
const view = (one) => ({
  name: one.name,
  adapter: one.adapter,
  reachable: one.reachable,
  detail: one.reachable ? null : one.detail,
  runs: one.running ? watermark(one.running) : one.queues.length ? "differs by queue" : "not known",
  set: one.set_to ? watermark(one.set_to) : "–",
  drifted: one.drifted,
  writes: one.writes,
});

function row(one) {
  return element("tr", {},
    element("th", { scope: "row" }, one.name, ...(one.detail ? [element("small", {}, one.detail)] : [])),
    element("td", { class: one.reachable ? "" : "worse" }, one.reachable ? "yes" : "no"),
    one.drifted ? element("td", { class: "worse" }, "drifted ", adopt(one)) : element("td", {}, "no"),
    element("td", {}, one.runs),
    element("td", {}, one.set),
    element("td", {}, one.adapter),
    element("td", {}, one.writes ? "written" : "dry run"));
}

function adopt(one) {
  const button = element("button", {
    type: "button", class: "small", "aria-label": `Adopt what ${one.name} runs`, title: "Take what it runs now as wanted",
  }, "Adopt");
  button.addEventListener("click", async () => {
    if (await act(button, `/v1/switches/${encodeURIComponent(one.name)}/adopt`)) region.focus();
    const found = await orNothing(call("/v1/switches"));
    if (found) show(found);
  });
  return button;
}
