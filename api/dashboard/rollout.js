// The newest rollout: how far it has come, what telemetry sees, and the way back.
import { confirmed } from "/assets/ask.js";
import { bits, bytes, count, element, fill, keep, percent, seconds, tell, watermark, when } from "/assets/format.js";
import { act, call, now, orNothing, throttled } from "/assets/service.js";

const EVERY_MS = 500;
const MOST_EVENTS = 300;
const find = (id) => document.getElementById(id);
const events = find("rollout-events");
let shown = null;

export const showRollout = throttled(async () => {
  if (document.hidden) return;
  const newest = (await orNothing(call("/v1/rollouts?limit=1")))?.rollouts[0];
  if (!newest) return;
  show((events.open && (await orNothing(call(`/v1/rollouts/${encodeURIComponent(newest.id)}`)))) || newest);
}, EVERY_MS);

const turnedBack = (rollout) => ["rolling_back", "rolled_back"].includes(rollout.phase);
const dry = (rollout) => rollout.switches.every((one) => !one.writes);
const touched = (rollout) => rollout.switches.filter((one) => ["applying", "applied", "verified", "set"].includes(one.progress));
const switches = (number) => `${count(number)} ${number === 1 ? "switch" : "switches"}`;
const few = (names) => (names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", "));

function show(rollout) {
  shown = rollout;
  find("rollout").hidden = false;
  tell(find("rollout-phase"), `${dry(rollout) ? "dry run, " : ""}${rollout.phase.replace("_", " ")}`);
  find("rollout-phase").className = `badge ${turnedBack(rollout) ? "rolled_back" : rollout.phase === "done" ? "approved" : ""}`;
  keep(find("rollout-steps"), steps(rollout), step);
  tell(find("rollout-said"), said(rollout));
  notice(find("rollout-why"), rollout.why && `Why it turned back: ${rollout.why}`);
  notice(find("rollout-stalled"), stalled(rollout));
  showTimeLeft();
  showSeen(rollout);
  const failing = (one) => (one.detail ? 0 : 1);
  const ordered = [...rollout.switches].sort((one, other) => failing(one) - failing(other));
  keep(find("rollout-switches").tBodies[0], ordered.map((one) => view(one, rollout)), row);
  find("roll-back").disabled = turnedBack(rollout);
  tell(find("rollout-origin"), `${rollout.id} · approved by ${rollout.approved_by ?? "nobody yet"} · ${when(rollout.proposed_at)}`);
  if (rollout.events) showEvents(rollout.events);
}

function notice(node, text) {
  node.hidden = !text;
  tell(node, text || "");
}

function stalled(rollout) {
  const reasons = [];
  if (rollout.frozen && !rollout.ended && !turnedBack(rollout)) reasons.push("Switches are frozen: none is set until they are thawed.");
  if (rollout.stalled) reasons.push(`It stands still: ${rollout.stalled}`);
  return reasons.join(" ");
}

const STEPS = ["approved", "canary", "soak", "fleet", "done"];
const SPOKEN = { passed: "passed", current: "under way", waiting: "still to come", skipped: "skipped", unreached: "not reached" };

function steps(rollout) {
  const began = (phase) => rollout.phases.find((one) => one.phase === phase)?.at;
  const back = turnedBack(rollout);
  const phase = rollout.phase === "soak" && rollout.stage > 0 ? "fleet" : rollout.phase;  // a batch soaks
  const here = STEPS.indexOf(phase);
  const state = (name, index) => {
    if (back) return began(name) ? "passed" : "unreached";
    if (index < here) return began(name) ? "passed" : "skipped";
    return index > here ? "waiting" : name === "done" ? "passed" : "current";
  };
  const way = STEPS.map((name, index) => ({ name, state: state(name, index), at: began(name) ?? null }));
  if (!back) return way;
  const at = rollout.phases.at(-1).at;
  return [...way, { name: rollout.phase.replace("_", " "), state: rollout.ended ? "passed" : "current", at, back }];
}

function step({ name, state, at, back }) {
  const attributes = { class: `${state} ${back ? "back" : ""}`, "aria-current": state === "current" ? "step" : "" };
  return element("li", attributes,
    element("b", {}, name, element("span", { class: "unseen" }, `: ${SPOKEN[state]}`)),
    element("small", {}, at ? when(at) : SPOKEN[state] === "still to come" ? "" : SPOKEN[state]));
}

function said(rollout) {
  const { stages, stage } = rollout;
  const batch = `batch ${stage} of ${stages.length - 1}`;
  const set = rollout.switches.filter((one) => one.progress === "set").length;
  const left = rollout.switches.filter((one) => one.progress === "left_alone").length;
  const restored = rollout.switches.filter((one) => one.progress === "restored").length;
  switch (rollout.phase) {
    case "proposed": return "Planned, and not yet approved.";
    case "approved": return "The change of each switch is worked out; none is touched yet.";
    case "canary": return `${few(stages[0])} is set first.`;
    case "soak":
      return stage === 0
        ? `${few(stages[0])} runs it; telemetry is watched before the others follow.`
        : `${batch[0].toUpperCase()}${batch.slice(1)} runs it and is watched; ${count(set)} of ${switches(rollout.switches.length)} set.`;
    case "fleet": return `Setting ${batch}: ${few(stages[stage])}; ${count(set)} of ${switches(rollout.switches.length)} set.`;
    case "done":
      return dry(rollout)
        ? `Nothing was written: this is what would have been set on ${switches(set)}.`
        : `${switches(set)} read back to run it.`;
    case "rolling_back": return `${switches(touched(rollout).length)} to return to what ran before, the last one first.`;
    default:
      return [
        restored ? `${switches(restored)} returned to what ran before.` : left ? "" : "No switch had been touched.",
        left ? `${switches(left)} left alone: somebody else has set it since.` : "",
      ].join(" ").trim();
  }
}

function showTimeLeft() {
  const soaking = shown?.phase === "soak" && shown.soak_from;
  const node = find("rollout-left");
  node.hidden = !soaking;
  if (!soaking) return;
  const left = Math.ceil(shown.soak_s - (now() - Date.parse(shown.soak_from)) / 1000);
  tell(node, left > 0 ? `${seconds(left)} left of ${seconds(shown.soak_s)}` : "Time is up; waiting for telemetry from after the change");
}

const number = (value) => (value < 1000 ? `${Number(value.toPrecision(3))}` : count(Math.round(value)));
const FIGURES = [
  ["Mean queue", "queue_mean_bytes", bytes],
  ["Throughput", "throughput_bytes_per_s", bits],
  ["Time paused by PFC", "pause_share", percent],
  ["PFC frames a second", "pfc_frames_per_s", number],
  ["Drops a second", "drops_per_s", number],
];

function showSeen(rollout) {
  const table = find("rollout-seen");
  const { before, predicted, seen } = rollout;
  // What is known of before is of this stage's switches, what was seen of those that soaked: they match in a soak only.
  const soaked = rollout.phases.findLast((one) => !one.phase.startsWith("roll")).phase === "soak";
  table.closest("section").hidden = !soaked;
  const cell = (figures, key, told, otherwise) => {
    const value = figures?.[key];
    return value == null ? element("td", { class: "absent" }, otherwise) : element("td", {}, told(value));
  };
  fill(table.tBodies[0], ...FIGURES.map(([label, key, told]) =>
    element("tr", {},
      element("th", { scope: "row" }, label),
      cell(before, key, told, "not reported"),
      cell(predicted, key, told, "not predicted"),
      cell(seen, key, told, seen === null || (key in before && before[key] != null) ? "not yet" : "not reported"))));
}

const view = (one, rollout) => ({
  name: one.switch,
  stage: one.stage === 0 ? "canary" : rollout.stages.length > 2 ? `batch ${one.stage}` : "fleet",
  progress: one.progress.replace("_", " "),
  before: one.before ? watermark(one.before) : one.after ? "differs by queue" : "",
  after: watermark(one.after ?? one.target),
  wanted: !one.after,
  remarks: [...one.notes, ...(one.detail ? [one.detail] : [])],
  writes: one.writes,
});

function row(one) {
  return element("tr", {},
    element("th", { scope: "row" }, `${one.name} `, element("span", { class: "absent" }, one.stage),
      ...(one.writes ? [] : [element("span", { class: "tag" }, "dry run")]),
      ...one.remarks.map((text) => element("small", {}, text))),
    element("td", { class: `progress ${one.progress.replace(" ", "-")}` }, one.progress),
    element("td", { class: "marks" },
      ...(one.before ? [element("span", { class: "absent" }, one.before), element("span", { class: "arrow" }, " → ")] : []),
      element("span", {}, one.wanted ? `${one.after} wanted` : one.after)));
}

function showEvents(happened) {
  const views = happened.map((one, index) => ({ index, ...one })).slice(-MOST_EVENTS).reverse();
  keep(find("rollout-happened"), views, ({ at, what, switch: name, detail }) =>
    element("li", {},
      element("time", { datetime: at, class: "quiet" }, when(at)),
      element("span", {}, element("b", {}, [name, sentence(what)].filter(Boolean).join(" ")), detail && `: ${detail}`)));
  const more = happened.length - views.length;
  tell(find("rollout-earlier"), more > 0 ? `${count(more)} earlier ones are at /v1/rollouts/${shown.id}` : "");
}

const sentence = (what) => what.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();

find("roll-back").addEventListener("click", async () => {
  const { id } = shown;
  const names = touched(shown).map((one) => one.switch);
  const nothing = dry(shown) ? "It was a dry run, so nothing is written." : "";
  const text = names.length
    ? `${switches(names.length)} will return to what ran before, the last one first. ${nothing}`
    : "No switch is set yet; none will be.";
  if (!(await confirmed({ title: "Roll back?", text, names, yes: "Roll back" }))) return;
  await act(find("roll-back"), `/v1/rollouts/${encodeURIComponent(id)}/rollback`);
  find("roll-back").disabled = true;  // until the next look says otherwise
  showRollout();
});
events.addEventListener("toggle", () => { if (events.open) showRollout(); });
setInterval(showTimeLeft, 1_000);
