import assert from "node:assert/strict";
import { test } from "node:test";
import { when } from "../src/format.ts";
import { change } from "../src/recommendation/figures.ts";
import { supportSaid } from "../src/recommendation/support.ts";
import { found, natural, next, ordered } from "../src/parts/order.ts";
import { lineOf } from "../src/parts/trend.tsx";
import { roundSaid, stageSaid } from "../src/shell/round-words.ts";
import { adviceSaid, overall } from "../src/views/history/advice-days.ts";
import { marksOf } from "../src/views/history/marks.ts";
import { limits, namedFigure, reasons, trendSaid } from "../src/views/now/condition-words.ts";
import { advised, approvedWith, asItStands, outdated } from "../src/views/now/advice-words.ts";
import { helped, judged } from "../src/views/now/helped-words.ts";

const FIGURE = { name: "loss_share", value: 0, level: "well", watch_from: 1e-6, bad_from: 1e-4, sentence: "no loss", hour_median: 0, hour: [["2026-01-01T00:00:00Z", 0], ["2026-01-01T00:00:10Z", 0.002]] };

test("a figure of the condition tells its limits exactly, and its last hour", () => {
  assert.equal(limits(FIGURE), "watch from 0.0001\u00a0%, bad from 0.01\u00a0%");
  assert.equal(limits({ ...FIGURE, name: "elephant_slowdown", watch_from: 5, bad_from: null }), "watch from 5×");
  assert.equal(limits({ ...FIGURE, watch_from: null, bad_from: null }), "no limit is set");
  assert.equal(trendSaid(FIGURE), "Packets lost in the last hour: at most 0.2\u00a0%, median 0\u00a0%.");
  assert.match(trendSaid({ ...FIGURE, hour: [] }), /nothing was measured/);
  assert.equal(namedFigure({ name: "of_tomorrow" }).name, "of tomorrow");
});

test("a trend has a gap where nothing was measured, and shows a point alone", () => {
  const at = (seconds) => new Date(seconds * 1000).toISOString();
  const path = lineOf([[at(0), 1], [at(10), 2], [at(500), 3]], (ms) => ms / 1000, (value) => value);
  assert.equal(path, "M0.0 1.0L10.0 2.0M500.0 3.0h1.5");
});

const ADVICE = { status: "pending", changes: true, verdict: "change", blocked: [], score_is: "gain", improvement: { score_gain: 0.081, score_error: 0.019 } };

test("what would be changed is an answer", () => {
  assert.deepEqual(advised(ADVICE), { answer: "A change: 8.1\u00a0±\u00a01.9\u00a0% better", tone: "busy" });
  assert.equal(advised({ ...ADVICE, blocked: [{ reason: "frozen", until: null }] }).tone, "warning");
  assert.equal(advised({ ...ADVICE, changes: false, status: "kept" }).answer, "No change is advised");
  assert.equal(advised({ ...ADVICE, changes: false }).answer, "A change of NICs", "the watermark stays, and it waits");
  assert.equal(advised({ ...ADVICE, status: "expired" }).answer, "The advice has expired");
  assert.equal(advised({ ...ADVICE, changes: false, status: "kept", verdict: "uncalibrated" }).tone, "warning", "nothing is known");
});

test("what was approved with NICs is told by its own gain", () => {
  const joint = { ...ADVICE, status: "approved", sets: ["watermark", "nic"], co_tuning: { gain: 1.02, gain_error: 0.22 } };
  assert.equal(advised(joint).answer, "Approved with NICs: predicted 102\u00a0±\u00a022\u00a0% better");
  assert.equal(advised({ ...joint, sets: ["watermark", "roles"] }).answer, "Approved by port role: predicted 102\u00a0±\u00a022\u00a0% better");
  assert.equal(advised({ ...joint, sets: ["watermark"] }).answer, "Approved: predicted 8.1\u00a0±\u00a01.9\u00a0% better");
  assert.equal(approvedWith({ ...joint, status: "pending" }), null);
});

test("what stands behind advice is told with how steady it was", () => {
  const support = { rounds: 5, last: "", moments: 8, traffic_s: 0.08, hour_rounds: 12, hour_agreeing: 11, changed: null };
  assert.equal(supportSaid(support), "5 rounds give this answer, judged on 80\u00a0ms of traffic from 8 moments. 11 of 12 rounds of the last hour agree.");
  assert.match(supportSaid({ ...support, hour_agreeing: 12 }), /Steady: all 12/);
  assert.match(supportSaid({ ...support, rounds: 1, hour_rounds: 1 }), /^1 round gives .* no other round/);
});

const ROLLOUT = { phase: "done", ended: true, why: null, stages: [["leaf1"]], stage: 0, phases: [{ at: "2026-01-01T00:00:00Z", phase: "canary" }], summary: { switches: 1, written: 1, progress: { set: 1 }, written_progress: { set: 1 }, target: null } };
const HASHED = { hashes: [{ switch: "leaf1", writes: true, progress: "set", target: "7", before: null, detail: "" }] };
const SEEN = { measured: 0.16, measured_error: 0.06, why: null };

test("advice to keep what ran before the newest rollout is outdated", () => {
  const kept = { id: "b", status: "kept", created: "2026-01-01T00:00:00Z", support: null };
  const since = (at, more = {}) => ({ ...ROLLOUT, recommendation: "a", since: at, ...more });
  assert.equal(outdated(kept, since("2026-01-01T01:00:00Z")), true);
  assert.equal(outdated(kept, since("2025-12-31T00:00:00Z")), false);
  assert.equal(outdated({ ...kept, status: "pending" }, since("2026-01-01T01:00:00Z")), false);
  assert.equal(asItStands(kept, since("2026-01-01T01:00:00Z")).status, "outdated");
  assert.equal(asItStands(kept, since("2025-12-31T00:00:00Z")), kept);
  assert.equal(outdated(kept, since("2026-01-01T01:00:00Z", HASHED)), false, "the watermark is as it was");
  assert.equal(advised(ADVICE, true).answer, "Not known until the next round");
});

test("another hash is no change that is measured", () => {
  assert.equal(helped({ ...ROLLOUT, ...HASHED }, null).answer, "Another ECMP hash");
  assert.equal(helped({ ...ROLLOUT, ...HASHED, phase: "rolled_back" }, null).answer, "It was rolled back");
});

test("whether the last change helped is told from two errors on", () => {
  assert.deepEqual(judged(SEEN), { answer: "Yes: 16\u00a0±\u00a06.0\u00a0% better", tone: "good" });
  assert.deepEqual(judged({ ...SEEN, measured: -0.2 }), { answer: "No: 20\u00a0±\u00a06.0\u00a0% worse", tone: "critical" });
  assert.equal(judged({ ...SEEN, measured: 0.11 }).answer, "Too small to tell: 11\u00a0±\u00a06.0\u00a0%");
  assert.equal(judged({ ...SEEN, measured: null }), null);
  assert.equal(judged({ ...SEEN, measured: 0, measured_error: null }).answer, "Too small to tell: 0\u00a0%");
  assert.equal(helped(ROLLOUT, { ...SEEN, measured: null }).answer, "Not measured yet");
  assert.equal(helped({ ...ROLLOUT, phase: "rolled_back", why: "pauses" }, SEEN).sentence, "Reason: pauses");
  const dry = { ...ROLLOUT, summary: { ...ROLLOUT.summary, written: 0 } };
  const phases = ["done", "rolling_back", "rolled_back"].map((phase) => ({ ...dry, phase, ended: phase !== "rolling_back", why: "pauses" }));
  assert.deepEqual(phases.map((one) => helped(one, null).answer), Array(3).fill("It was a dry run"));
});

test("rollouts are marked where they began and where they were taken back, dry runs are not", () => {
  const back = { ...ROLLOUT, phases: [...ROLLOUT.phases, { at: "2026-01-01T00:01:00Z", phase: "rolling_back" }] };
  const names = (all) => marksOf(all).map(({ name }) => name);
  assert.deepEqual(names([back]), ["rollout", "rolled back"]);
  assert.deepEqual(names([{ ...back, summary: { ...back.summary, written: 0 } }]), []);
});

test("a day with one round counts as one round", () => {
  const days = [{ day: "2026-01-01", rounds: 9, advised: 9, gain: 0.1, gain_error: 0.02 }, { day: "2026-01-02", rounds: 1, advised: 0, gain: 0, gain_error: null }];
  const all = overall(days);
  assert.ok(Math.abs(all.gain - 0.09) < 1e-9);
  assert.equal(all.error, 0.02);
  assert.match(adviceSaid(days), /^10 rounds on 2 days, 9 of which advised a change\. .* 9\.0\u00a0±\u00a02\.0\u00a0% better/);
  assert.match(adviceSaid([days[1]]), /advised no change/);
});

test("lists are in natural order, and sort and search as one expects", () => {
  assert.deepEqual(["leaf10", "leaf2", "leaf1"].sort(natural), ["leaf1", "leaf2", "leaf10"]);
  assert.deepEqual(ordered([3, null, 20], (one) => one, true), [20, 3, null]);
  assert.deepEqual(ordered([3, null, 20], (one) => one, false), [3, 20, null]);
  assert.deepEqual(found(["leaf1 lab", "leaf2 sonic"], "LEAF sonic", (one) => one), ["leaf2 sonic"]);
  const first = next(null, "Load", true);
  assert.deepEqual([first, next(first, "Load", true), next({ column: "Load", down: false }, "Load", true)], [{ column: "Load", down: true }, { column: "Load", down: false }, null]);
});

test("times of another day have their date and zone, and the year where it is another", () => {
  const at = new Date(2026, 0, 5, 9, 7, 3);
  assert.equal(when(at.toISOString(), new Date(2026, 0, 5, 23)), "09:07:03");
  assert.match(when(at.toISOString(), new Date(2026, 0, 6)), /^5 Jan.* 09:07 \S+/);
  assert.match(when(at.toISOString(), new Date(2027, 0, 6)), /^5 Jan 2026.* 09:07 \S+/);
});

test("from three times as much on, a change is told in times", () => {
  assert.equal(change(1, 42.87, { good: 0 }).text, "43 times");
  assert.equal(change(1, 1.5, { good: 0 }).text, "+50\u00a0%");
});

test("the stages of a round are told plainly", () => {
  assert.equal(stageSaid({ stage: "traffic 0.375", done: 160, total: 256 }), "trying candidates on 38 % of the traffic, 160 of 256");
  assert.equal(stageSaid({ stage: "long moments", done: 3, total: 8 }), "comparing the best on long traffic, 3 of 8");
  assert.equal(stageSaid({ stage: "window 1", done: null, total: null }), "trying candidates");
  assert.equal(roundSaid({ stage: "second opinion", done: 0, total: 4 }), "Asking the packet engine, 0 of 4.");
});

test("what makes the verdict is told without saying the verdict again", () => {
  assert.equal(reasons("To be watched: a small message takes 46.3 times as long as alone at p99 (limit 20)."), "A small message takes 46.3 times as long as alone at p99 (limit 20).");
  assert.equal(reasons("Unknown: it is being measured."), "It is being measured.");
  assert.equal(reasons("Nothing is measured."), "Nothing is measured.");
});
