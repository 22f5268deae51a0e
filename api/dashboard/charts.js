// The two pictures: the marking curve before and after, and every candidate by queue and throughput.
import { bytes, drawn, element, fill, percent, ratio } from "/assets/format.js";

const MARGIN = { left: 46, right: 14, top: 12, bottom: 36 };

function size(parent, aspect) {
  const width = Math.max(280, Math.min(1100, parent.clientWidth || 520));
  return { width, height: Math.max(220, Math.min(380, width * aspect)) };
}

function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    const tick = 10 ** power;
    if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
  }
  return ticks;
}

function frame(parent, label, { width, height }) {
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  return { picture, inner: { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom } };
}

function grid(picture, inner, xs, ys, xName) {
  for (const [at, text] of ys) {
    picture.append(
      drawn("line", { class: "axis", x1: inner.left, x2: inner.right, y1: at, y2: at }),
      drawn("text", { x: inner.left - 8, y: at + 4, "text-anchor": "end" }, text));
  }
  for (const [at, text] of xs) {
    picture.append(
      drawn("line", { class: "axis", x1: at, x2: at, y1: inner.bottom, y2: inner.bottom + 5 }),
      drawn("text", { x: at, y: inner.bottom + 18, "text-anchor": "middle" }, text));
  }
  picture.append(drawn("text", { x: inner.right, y: inner.bottom + 33, "text-anchor": "end" }, xName));
}

export function curve(parent, now, better) {
  const shape = size(parent, 0.55);
  const { picture, inner } = frame(parent, `Marking probability by queue length: now ${told(now)}; recommended ${told(better)}`, shape);
  const low = Math.max(100, Math.min(now.kmin_bytes || 1000, better.kmin_bytes || 1000) / 3);
  const high = Math.max(now.kmax_bytes, better.kmax_bytes) * 2;
  const x = (value) => inner.left + ((Math.log(Math.max(value, low)) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (inner.right - inner.left);
  const y = (value) => inner.bottom - Math.sqrt(value) * (inner.bottom - inner.top);
  grid(
    picture, inner,
    decades(low, high).map((tick) => [x(tick), bytes(tick)]),
    [0, 0.01, 0.1, 0.25, 0.5, 1].map((tick) => [y(tick), percent(tick)]),
    "bytes waiting",
  );
  for (const [mark, kind] of [[now, "old"], [better, "new"]]) {
    const points = [[x(low), y(0)], [x(mark.kmin_bytes), y(0)]];
    for (let step = 1; step <= 60; step += 1) {
      const part = step / 60;
      points.push([x(mark.kmin_bytes + part * (mark.kmax_bytes - mark.kmin_bytes)), y(part * mark.pmax)]);
    }
    points.push([x(mark.kmax_bytes), y(1)], [x(high), y(1)]);
    picture.append(drawn("polyline", { class: `line ${kind}`, points: points.map((point) => point.join(",")).join(" ") }));
  }
  fill(parent, picture, element("p", { class: "legend" },
    element("span", {}, element("i", { class: "old" }), "now"),
    element("span", {}, element("i"), "recommended")));
}

const told = (mark) => `Kmin ${bytes(mark.kmin_bytes)}, Kmax ${bytes(mark.kmax_bytes)}, Pmax ${percent(mark.pmax)}`;

// Candidates dropped early ran a shorter window than the leaders; only the raw terms of the score compare across them.
const LOG_QUEUE_OFFSET_BYTES = 1000;
const THROUGHPUT = {
  goodput_bytes_per_s: ["goodput in Gbit/s", (raw) => (raw * 8) / 1e9, (value) => value.toPrecision(3)],
  slowdown_and_goodput: ["elephant speed and goodput, weighed by flows", (raw) => raw, (value) => value.toPrecision(3)],
  inverse_elephant_slowdown: ["elephant speed (1 ÷ mean slowdown)", (raw) => raw, (value) => value.toFixed(2)],
};

export function scatter(parent, note, document) {
  const [yName, convert, show] = THROUGHPUT[document.throughput_is] ?? ["throughput term", (raw) => raw, (value) => value.toPrecision(3)];
  const logQueue = document.queue_is === "log_queue";
  const queue = (one) => Math.max(100, logQueue ? Math.exp(one.raw.queue) - LOG_QUEUE_OFFSET_BYTES : one.queue_mean_bytes);
  const value = (one) => convert(one.raw.throughput);
  const usable = (document.candidates ?? []).filter((one) => one.score != null && one.queue_mean_bytes != null && one.raw.throughput != null);
  note.textContent = `Mean queue across, ${yName} up: better is up and left. The best tenth by score is coloured.`;
  if (usable.length === 0) { fill(parent, element("p", { class: "quiet" }, "No candidate reached its end.")); return; }
  const shape = size(parent, 0.36);
  const { picture, inner } = frame(parent, `${usable.length} candidates by mean queue and ${yName}`, shape);
  const queues = usable.map(queue);
  const values = usable.map(value);
  const [low, high] = [Math.min(...queues) / 1.3, Math.max(...queues) * 1.3];
  const spread = Math.max(...values) - Math.min(...values) || Math.abs(values[0]) * 0.1 || 1;
  const [bottom, top] = [Math.min(...values) - 0.08 * spread, Math.max(...values) + 0.12 * spread];
  const across = (amount) => inner.left + ((Math.log(amount) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (inner.right - inner.left);
  const x = (one) => across(queue(one));
  const y = (one) => inner.bottom - ((value(one) - bottom) / (top - bottom)) * (inner.bottom - inner.top);
  const ticks = [1, 2, 5].flatMap((step) => decades(low / 10, high).map((tick) => step * tick)).filter((tick) => tick >= low && tick <= high);
  const few = ticks.length > shape.width / 75 ? decades(low, high) : ticks.sort((a, b) => a - b);
  grid(
    picture, inner,
    few.map((tick) => [across(tick), bytes(tick)]),
    [0, 0.25, 0.5, 0.75, 1].map((part) => [inner.bottom - part * (inner.bottom - inner.top), show(bottom + part * (top - bottom))]),
    "mean bottleneck queue",
  );
  const scores = usable.map((one) => one.score);
  const line = [...scores].sort((a, b) => b - a)[Math.floor(scores.length / 10)];
  const same = (one, other) => ["kmin_bytes", "kmax_bytes", "pmax"].every((key) => one[key] === other[key]);
  const [now, best] = [document.incumbent, document.recommendation];
  for (const one of usable) {
    if (same(one, now) || same(one, best)) continue;
    picture.append(drawn("circle", { class: `dot ${one.score >= line ? "near" : ""}`, cx: x(one), cy: y(one), r: 3.6 }));
  }
  const named = [[now, "old", "now"], [best, "new", "recommended"]]
    .filter(([, kind]) => kind === "new" || !same(now, best))
    .map(([mark, kind, name]) => [usable.find((candidate) => same(candidate, mark)), kind, name])
    .filter(([one]) => one);
  const close = named.length === 2 && Math.abs(x(named[0][0]) - x(named[1][0])) < 140 && Math.abs(y(named[0][0]) - y(named[1][0])) < 20;
  for (const [one, kind, name] of named) {
    const left = x(one) > inner.right - 110;
    const lift = close ? (kind === "new" ? -14 : 22) : 4;
    picture.append(
      drawn("circle", { class: `mark ${kind}`, cx: x(one), cy: y(one), r: 7.5 }),
      drawn("text", { class: "name", x: x(one) + (close ? 0 : left ? -13 : 13), y: y(one) + lift, "text-anchor": close ? "middle" : left ? "end" : "start" }, name));
  }
  const ring = drawn("circle", { class: "ring", r: 9, visibility: "hidden" });
  picture.append(ring);
  fill(parent, picture);
  pointing(parent, picture, shape, usable, x, y, ring);
}

function pointing(parent, picture, shape, usable, x, y, ring) {
  const tip = element("div", { class: "tip", role: "status" });
  tip.hidden = true;
  parent.append(tip);
  const ordered = [...usable].sort((one, other) => x(one) - x(other));
  let chosen = -1;
  function show(one) {
    const factor = picture.clientWidth / shape.width;
    tip.hidden = false;
    tip.textContent =
      `${told(one)}\nmean queue ${bytes(one.queue_mean_bytes)}, 99 % ${bytes(one.queue_p99_bytes)}` +
      `\nmice 99 % ${ratio(one.slowdown.mice.p99)}, elephants ${ratio(one.slowdown.elephant.mean)}` +
      `\nscore ${one.score.toFixed(3)}, ${one.source || one.origin}`;
    const right = x(one) * factor > parent.clientWidth / 2;
    tip.style.left = right ? "auto" : `${x(one) * factor + 14}px`;
    tip.style.right = right ? `${parent.clientWidth - x(one) * factor + 14}px` : "auto";
    tip.style.top = `${Math.min(y(one) * factor, parent.clientHeight - 100)}px`;
    ring.setAttribute("cx", x(one));
    ring.setAttribute("cy", y(one));
    ring.setAttribute("visibility", "visible");
  }
  function hide() { tip.hidden = true; ring.setAttribute("visibility", "hidden"); }
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const factor = shape.width / box.width;
    const [px, py] = [(event.clientX - box.left) * factor, (event.clientY - box.top) * factor];
    const distance = (one) => Math.hypot(x(one) - px, y(one) - py);
    const nearest = usable.reduce((a, b) => (distance(a) < distance(b) ? a : b));
    if (distance(nearest) < 40) show(nearest); else hide();
  });
  picture.addEventListener("pointerleave", hide);
  picture.setAttribute("tabindex", "0");
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    chosen = Math.max(0, Math.min(ordered.length - 1, chosen + step));
    show(ordered[chosen]);
  });
  picture.addEventListener("blur", hide);
}
