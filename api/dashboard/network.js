// What the state tells beside flows and queues: incast, mice against elephants, and what ports' counters say.
import { count, element, keep, percent } from "/assets/format.js";

const PORTS_SHOWN = 8;
const card = document.getElementById("ports");

const few = (value) => (value >= 1000 ? count(Math.round(value)) : String(Number(value.toPrecision(3))));
const perSecond = (value) => (value == null ? "–" : `${few(value)}/s`);

export function facts(state) {
  const [worst] = state.incast;
  const known = (pick) => state.queues.map(pick).filter((value) => value != null);
  const marked = known((queue) => queue.marked_packets_per_s);
  return [
    ["Worst incast", worst ? `${count(worst.degree)} sender${worst.degree > 1 ? "s" : ""} at once to ${worst.receiver}` : "–"],
    ["Mice for each elephant", state.mice_to_elephants == null ? "no elephants" : few(state.mice_to_elephants)],
    ["The same by bytes", state.mice_to_elephants_bytes == null ? "–" : few(state.mice_to_elephants_bytes)],
    ["Marked at most, one queue", marked.length ? perSecond(Math.max(...marked)) : "–"],
  ].map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
}

export function showPorts(state) {
  card.hidden = state.port_count === 0;
  document.getElementById("ports-note").textContent =
    `${count(state.port_count)} port${state.port_count > 1 ? "s" : ""} give counters`;
  keep(card.querySelector("tbody"), state.ports.slice(0, PORTS_SHOWN).map(view), row);
}

const view = (port) => ({
  name: `${port.switch} ${port.port}`,
  lost: port.drops_per_s > 0,
  cells: [
    perSecond(port.drops_per_s), perSecond(port.wred_drops_per_s), percent(port.pause_share),
    perSecond(port.pfc_rx_frames_per_s), perSecond(port.pfc_tx_frames_per_s),
    perSecond(port.ecn_marked_per_s), perSecond(port.cnp_per_s),
  ],
});

function row(port) {
  return element("tr", {},
    element("th", { scope: "row" }, port.name),
    ...port.cells.map((text, place) => element("td", { class: place === 0 && port.lost ? "worse" : "" }, text)));
}
