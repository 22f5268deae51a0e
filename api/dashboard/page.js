// The page: reads the service's own routes, and again whenever an event says that something happened.
import { showAlarms } from "/assets/alarms.js";
import { curve, scatter } from "/assets/charts.js";
import { bits, bytes, count, element, fill, percent, ratio, seconds, watermark, when } from "/assets/format.js";
import { showFreeze } from "/assets/freeze.js";
import { showPorts, facts } from "/assets/network.js";
import { showRollout } from "/assets/rollout.js";
import { Problem, act, call, keepToken, listen, orNull, say, throttled } from "/assets/service.js";
import { showSwitches } from "/assets/switches.js";

const find = (id) => document.getElementById(id);
const POLL_MS = 10_000;
const REFRESH_MS = 200;
const SWITCHES_EVERY = 3;
let current = null;
let phase = null;
let polls = 0;

const refresh = throttled(async () => {
  try {
    const [ready, state, rounds] = await Promise.all([
      fetch("/readyz").then((answer) => answer.json()),
      orNull(call("/v1/state?queues=24"), 409),
      call("/v1/recommendations?candidates=false&limit=12"),
    ]);
    const newest = rounds.total === 0 ? null : await orNull(call("/v1/recommendations/current"), 404);
    find("sign-in").hidden = true;
    find("away").hidden = true;
    showReadiness(ready);
    showEmpty(state, newest);
    showNetwork(state);
    showRecommendation(newest);
    showHistory(rounds);
  } catch (error) {
    if (error.status === 401) { setLive("signed out", ""); return; }
    setLive("not reachable", "lost");
    find("away").hidden = false;
    find("away").textContent =
      error instanceof Problem ? error.message : "The service does not answer; this page tries again by itself.";
  }
}, REFRESH_MS);

function setLive(text, kind) {
  const live = find("live");
  live.textContent = text;
  live.className = `pill ${kind}`;
}

function showReadiness(ready) {
  if (find("live").classList.contains("busy")) return;
  setLive(ready.ready ? "ready" : "waiting", ready.ready ? "ready" : "");
  find("live").title = ready.reasons.join(" ");
}

function showEmpty(state, newest) {
  find("empty").hidden = Boolean(state || newest);
  find("tune").disabled = !state || find("live").classList.contains("busy");
  find("curl").textContent =
    `curl -X POST -H 'Content-Type: application/x-ndjson' -H 'Content-Encoding: gzip' \\\n` +
    `     --data-binary @reports.ndjson.gz ${location.origin}/v1/telemetry/int`;
}

const CLASSES = { elephant: "Elephants", potential_elephant: "Potential elephants", mouse: "Mice" };

function showNetwork(state) {
  find("network").hidden = !state;
  if (!state) return;
  find("window").textContent =
    `${count(state.reports)} reports over ${seconds(state.duration_s)}${state.stale ? ", stale" : ""}`;
  const total = Object.values(state.bytes).reduce((sum, value) => sum + value, 0) || 1;
  const rows = Object.entries(CLASSES).flatMap(([name, label]) => {
    const bar = element("i");
    bar.style.width = `${(100 * state.bytes[name]) / total}%`;
    return [
      element("span", {}, label),
      element("span", { class: "bar", "aria-hidden": "true" }, bar),
      element("span", { class: "amount" }, `${count(state.flows[name])} flows, ${percent(state.bytes[name] / total)} of bytes`),
    ];
  });
  fill(find("flows"), element("div", { class: "share" }, ...rows));
  fill(find("facts"), ...facts(state));
  showPorts(state);
  fill(
    find("queues").tBodies[0],
    ...state.queues.map((queue) =>
      element("tr", {},
        element("th", { scope: "row" }, `${queue.switch} ${queue.port} · ${queue.queue}`),
        element("td", {}, bytes(queue.depth_mean_bytes)),
        element("td", {}, bytes(queue.depth_p99_bytes)),
        element("td", {}, percent(queue.marked_ratio)),
        element("td", {}, queue.capacity_bytes_per_s
          ? percent(queue.throughput_bytes_per_s / queue.capacity_bytes_per_s)
          : bits(queue.throughput_bytes_per_s)))),
  );
}

const DECISIONS = { pending: "waiting for you", kept: "keep what runs", rolled_back: "rolled back" };
const DECIDED = { approved: "approved by", rejected: "rejected by", rolled_back: "rolled back, approved by" };

function showRecommendation(document) {
  current = document;
  find("recommendation").hidden = !document;
  find("figures").hidden = !document;
  if (!document) return;
  find("version").textContent = `v${document.version}`;
  const { recommendation: better, incumbent: now } = document;
  const badge = find("decision");
  badge.textContent = DECISIONS[document.status] ?? document.status;
  badge.className = `badge ${document.status}`;
  const values = [
    ["Kmin", bytes(now.kmin_bytes), bytes(better.kmin_bytes)],
    ["Kmax", bytes(now.kmax_bytes), bytes(better.kmax_bytes)],
    ["Pmax", percent(now.pmax), percent(better.pmax)],
  ];
  fill(
    find("watermark"),
    ...values.map(([name, before, after]) =>
      element("div", {},
        element("dt", {}, name),
        element("dd", { class: "new" }, after),
        element("dd", { class: "old" }, before === after ? "as now" : `now ${before}`))),
  );
  find("why").textContent = document.why;
  const opinion = document.second_opinion;
  find("second-opinion").hidden = !opinion;
  find("second-opinion").className = opinion?.disagrees ? "notice" : "quiet";
  find("second-opinion").textContent = opinion ? `Second opinion: ${opinion.sentence}` : "";
  find("holds").hidden = document.holds.length === 0 || document.status !== "pending";
  find("holds").textContent = document.holds.join(" ");
  find("caution").hidden = !document.caution;
  find("caution").textContent = document.caution ?? "";
  find("origin").textContent =
    `${when(document.created)} · ${CLASSES[document.dominant_class]?.toLowerCase() ?? document.dominant_class} dominate, ` +
    `λ ${document.lambda} · ${count(document.candidate_count)} candidates in ${seconds(document.wall_s)} · seed ${document.seed}`;
  find("actions").hidden = document.status !== "pending";
  showPushed(document);
  showFidelity(document);
  showComparison(now, better);
  curve(find("curve"), now, better);
  scatter(find("scatter"), find("scatter-note"), document);
}

function showPushed(document) {
  const box = find("pushed");
  box.hidden = document.pushed.length === 0;
  if (box.hidden) return;
  const dry = document.pushed.every((item) => !item.writes);
  const switches = `${document.pushed.length} switch${document.pushed.length > 1 ? "es" : ""}`;
  fill(box.querySelector("summary"), dry ? `Dry run: what would have been set on ${switches}` : `Set and read back on ${switches}`);
  fill(box.querySelector("div"), ...document.pushed.map((item) => element("pre", {}, item.diff || `${item.switch}: nothing to change`)));
}

function showFidelity({ measured, incumbent }) {
  const box = find("fidelity");
  box.hidden = measured.queue_mean_bytes == null;
  const off = measured.residual_ratio;
  const pairs = [
    ["Mean queue measured", bytes(measured.queue_mean_bytes)],
    ["Predicted for what runs", bytes(incumbent.queue_mean_bytes)],
    ["Off by", off == null ? "–" : `${off < 0 ? "−" : "+"}${percent(Math.abs(off))}`],
  ];
  fill(box.querySelector("dl"), ...pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

const ROWS = [
  ["Mean queue", (p) => p.queue_mean_bytes, bytes, -1],
  ["99th percentile queue", (p) => p.queue_p99_bytes, bytes, -1],
  ["Mice, 99 % slowdown", (p) => p.slowdown.mice.p99, ratio, -1],
  ["Elephants, mean slowdown", (p) => p.slowdown.elephant.mean, ratio, -1],
  ["Goodput", (p) => p.goodput_gbps, (value) => (value == null ? "–" : `${value.toPrecision(4)} Gbit/s`), 1],
  ["Packets marked", (p) => p.marked_fraction, percent, 0],
  ["Lost", (p) => p.loss_bytes, bytes, -1],
  ["Paused by PFC", (p) => p.pfc_pause_s, seconds, -1],
  ["Score", (p) => p.score, (value) => (value == null ? "–" : value.toFixed(3)), 1],
];

function showComparison(now, better) {
  const rows = ROWS.filter(([, pick]) => pick(now) != null || pick(better) != null).map(([label, pick, show, good]) => {
    const [before, after] = [pick(now), pick(better)];
    return element("tr", {},
      element("th", { scope: "row" }, label),
      element("td", {}, show(before)),
      element("td", {}, show(after)),
      change(before, after, good, label === "Score"));
  });
  fill(find("compare").tBodies[0], ...rows);
}

function change(before, after, good, absolute) {
  if (before == null || after == null) return element("td", {}, "–");
  const difference = after - before;
  const relative = before === 0 ? (difference === 0 ? 0 : Infinity) : difference / Math.abs(before);
  const small = absolute ? Math.abs(difference) < 0.005 : Math.abs(relative) < 0.005;
  const text = absolute
    ? `${difference >= 0 ? "+" : "−"}${Math.abs(difference).toFixed(3)}`
    : Number.isFinite(relative) ? `${relative >= 0 ? "+" : "−"}${percent(Math.abs(relative))}` : "new";
  const kind = small || good === 0 ? "" : difference * good > 0 ? "better" : "worse";
  return element("td", { class: kind }, small ? "same" : text);
}

function showHistory(rounds) {
  find("history").hidden = rounds.recommendations.length === 0;
  fill(
    find("history").querySelector("tbody"),
    ...rounds.recommendations.map((item) =>
      element("tr", {},
        element("th", { scope: "row" }, when(item.created)),
        element("td", {}, watermark(item.recommendation)),
        element("td", {}, `${bytes(item.incumbent.queue_mean_bytes)} → ${bytes(item.recommendation.queue_mean_bytes)}`),
        element("td", {}, item.decided_by ? `${DECIDED[item.status] ?? item.status} ${item.decided_by}` : DECISIONS[item.status] ?? item.status))),
  );
}

async function decide(button, path) {
  await act(button, path);
  refresh();
  showRollout();
}

find("tune").addEventListener("click", () => decide(find("tune"), "/v1/tune"));
find("approve").addEventListener("click", () => decide(find("approve"), `/v1/recommendations/${current.id}/approve`));
find("reject").addEventListener("click", () => decide(find("reject"), `/v1/recommendations/${current.id}/reject`));
find("dismiss").addEventListener("click", () => say(null));
find("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(find("token").value.trim());
  find("token").value = "";
  everything();
});

function heard(kind, data) {
  if (kind === "whatif") return;
  if (kind === "alarm") { showAlarms(); return; }
  if (kind === "switch") { showSwitches(); return; }
  if (kind === "rollout") {
    showRollout();
    if (["Frozen", "Thawed"].includes(data.what)) showFreeze();
    if (phase === `${data.id} ${data.phase}`) return;
    phase = `${data.id} ${data.phase}`;
    showSwitches();
  }
  if (kind === "round" && data.stage !== "finished") {
    setLive(data.total ? `round: ${data.stage} ${data.done}/${data.total}` : `round: ${data.stage}`, "busy");
    find("tune").disabled = true;
    return;
  }
  if (kind === "round") setLive("ready", "ready");
  refresh();
}

function everything() {
  refresh();
  showAlarms();
  showFreeze();
  showRollout();
  showSwitches();
}

everything();
listen(heard);
document.addEventListener("visibilitychange", () => { if (!document.hidden) everything(); });
setInterval(() => {
  if (document.hidden) return;
  polls += 1;
  refresh();
  showAlarms();
  showFreeze();
  showRollout();
  if (polls % SWITCHES_EVERY === 0) showSwitches();
}, POLL_MS);
