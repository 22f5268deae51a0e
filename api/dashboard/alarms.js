// The alarms: what is wrong now, the worst first, and what has ended.
import { count, element, keep, percent, ratio, seconds, tell, when } from "/assets/format.js";
import { call, orNothing, throttled } from "/assets/service.js";

const EVERY_MS = 500;
const SHOWN = 50;
const card = document.getElementById("alarms");
const ended = document.getElementById("alarms-ended");

export const showAlarms = throttled(async () => {
  const found = await orNothing(call(`/v1/alarms?all=true&limit=${SHOWN}`));
  if (found) show(found);
}, EVERY_MS);

function show(found) {
  card.hidden = found.alarms.length === 0 && found.ended.length === 0;
  const total = found.warning + found.critical;
  tell(document.getElementById("alarms-note"), [
    ...(found.critical ? [`${count(found.critical)} critical`] : []),
    ...(found.warning ? [`${count(found.warning)} warning${found.warning > 1 ? "s" : ""}`] : []),
    ...(total ? [] : ["none now"]),
    ...(total > found.alarms.length ? [`the worst ${count(found.alarms.length)} shown`] : []),
    ...(found.left_off ? [`${count(found.left_off)} more without room`] : []),
  ].join(", "));
  card.classList.toggle("critical", found.critical > 0);
  keep(document.getElementById("alarms-now"), found.alarms.map(view), row);
  ended.hidden = found.ended.length === 0;
  keep(ended.querySelector("ul"), found.ended.map(view), row);
}

const UNITS = { share: percent, per_second: (value) => `${short(value)}/s`, seconds, times: ratio, yes: () => "" };
const short = (value) => (value < 1000 ? Number(value.toPrecision(3)) : count(Math.round(value)));

// The sentence has the value in it, so a row is drawn anew when that changes and stays as it is when not.
const view = ({ level, kind, subject, unit, threshold, sentence, look, since, ended: end, why }) =>
  ({ level, kind, subject, limit: UNITS[unit](threshold), sentence, look, since, end, why });

function row(one) {
  const times = one.end ? `${when(one.since)} to ${when(one.end)}` : `since ${when(one.since)}`;
  const limit = one.limit ? ` · from ${one.limit} on it is ${one.level}` : "";
  return element("li", {},
    element("span", { class: `badge ${one.level}` }, one.level),
    element("div", {},
      element("p", {}, element("b", {}, one.subject), " ", element("span", { class: "tag" }, one.kind.replaceAll("_", " "))),
      element("p", {}, `${one.sentence}.`),
      ...(one.end ? [] : [element("p", { class: "quiet" }, one.look)]),
      element("p", { class: "quiet" }, times, limit, one.why ? ` · ended: ${one.why}` : "")));
}
