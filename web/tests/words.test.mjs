import assert from "node:assert/strict";
import { test } from "node:test";
import { bits, bytes, closed, countdown, gain, percent, pmax, score, seconds, several, spelled, watermark } from "../src/format.ts";
import { change, comparedBy, worth } from "../src/recommendation/figures.ts";
import { understood } from "../src/service/events.ts";
import { joined } from "../src/service/switches.ts";
import { marks, progressOf, said, steps } from "../src/views/act/rollout-words.ts";
import { runs, together } from "../src/views/act/switch-words.ts";

test("figures have three digits, a unit, and a dash where they are not known", () => {
  assert.deepEqual([null, 0, 999.6, 1500, 123456, 1.6e6].map(bytes), ["–", "0\u00a0B", "1.00\u00a0KB", "1.50\u00a0KB", "123\u00a0KB", "1.60\u00a0MB"]);
  assert.deepEqual([null, 0.2848, 0.2, 0.01234, 1].map(pmax), ["–", "28.5\u00a0%", "20\u00a0%", "1.23\u00a0%", "100\u00a0%"]);
  const mark = { kmin_bytes: 7_000, kmax_bytes: 750_000, pmax: 0.2848 };
  assert.deepEqual([watermark, spelled].map((one) => one(mark).endsWith("28.5\u00a0%")), [true, true]); // as sentences of the service
  assert.equal(bits(12.5e9), "100\u00a0Gbit/s");
  assert.deepEqual([0.5, 0.012345, 0, -0.25].map(percent), ["50\u00a0%", "1.2\u00a0%", "0\u00a0%", "−25\u00a0%"]);
  assert.deepEqual([2e-6, 0.0125, 3, 3_600, 9_000, 259_200].map(seconds), ["2\u00a0µs", "12.5\u00a0ms", "3\u00a0s", "3\u202f600\u00a0s", "2.5\u00a0h", "3\u00a0days"]);
  assert.deepEqual([-3, 0.2, 297, 86_400].map(countdown), ["0:00:00", "0:00:01", "0:04:57", "24:00:00"]);
  assert.deepEqual(["a port is off", "is LLDP on?", "so it is."].map(closed), ["a port is off.", "is LLDP on?", "so it is."]);
  assert.deepEqual([several(1, "switch", "switches"), several(2, "switch", "switches")], ["1 switch", "2 switches"]);
});

test("a change says better or worse by the figure's own sense", () => {
  assert.deepEqual(change(100, 50, { good: -1 }), { text: "−50\u00a0%", tone: "better" });
  assert.deepEqual(change(100, 150, { good: -1 }), { text: "+50\u00a0%", tone: "worse" });
  assert.deepEqual(change(100, 150, { good: 0 }), { text: "+50\u00a0%", tone: "" });
  assert.deepEqual(change(100, 100.1, { good: 1 }), { text: "same", tone: "" });
  assert.deepEqual(change(0, 5, { good: -1 }), { text: "new", tone: "worse" });
  assert.deepEqual(change(null, 5, { good: -1 }), { text: "–", tone: "" });
  assert.deepEqual(change(0.25, 0.5, { good: 1, absolute: score }), { text: "+0.250", tone: "better" });
  assert.deepEqual(change(0, 0.081, { good: 1, absolute: gain }), { text: "+8.1\u00a0%", tone: "better" });
});

test("a gain is percent with its error, as the sentence of why has it", () => {
  assert.equal(gain(0.081, 0.019), "8.1\u00a0±\u00a01.9\u00a0%");
  assert.equal(gain(-0.34, 0.12), "−34\u00a0±\u00a012\u00a0%");
  assert.equal(gain(0.03), "3.0\u00a0%");
  assert.deepEqual([gain(0, 0), gain(-0.0001), gain(null)], ["0\u00a0%", "0\u00a0%", "–"]);
});

const AT = { slowdown: { mice: {}, elephant: {} }, paused_share: 0.001, pfc_pause_s: 0.5, loss_bytes: 0, score: 0.08, score_error: 0.02, score_normalised: 0.213 };

test("gains and scores min–max are never told as one", () => {
  assert.equal(worth(AT, "gain"), "8.0\u00a0±\u00a02.0\u00a0%");
  assert.equal(worth(AT, undefined), "0.080");
  const names = (by) => comparedBy(by).flatMap(({ name, pick, show }) => (/Gain|Score/.test(name) ? [`${name} ${show(pick(AT), AT)}`] : []));
  assert.deepEqual(names("gain"), ["Gain over what runs 8.0\u00a0±\u00a02.0\u00a0%"]);
  assert.deepEqual(names("normalised"), ["Score, min–max of its round 0.080"]);
  const paused = comparedBy("gain").find(({ name }) => name === "Paused by PFC");
  assert.equal(paused.show(paused.pick(AT), AT), "500\u00a0ms (0.1\u00a0%)");
  assert.equal(paused.show(1e-6, { ...AT, paused_share: 1e-6 }), "1\u00a0µs (under 0.01\u00a0%)");
});

test("frames of events are understood, comments are not events", () => {
  assert.deepEqual(understood('id: 4\nevent: round\ndata: {"stage":"x: y"}'), { kind: "round", data: { stage: "x: y" } });
  assert.equal(understood(": still here"), null);
});

const ROLLOUT = {
  phase: "soak", stage: 0, stages: [["leaf1"], ["leaf2", "leaf3"]], ended: false,
  phases: [{ at: "1", phase: "approved" }, { at: "2", phase: "canary" }, { at: "3", phase: "soak" }],
  switches: ["leaf1", "leaf2", "leaf3"].map((name) => ({ switch: name, progress: "staged", writes: true })),
  summary: { switches: 3, written: 3, progress: { staged: 3 }, written_progress: { staged: 3 }, target: null },
};

test("a rollout's steps say which is under way", () => {
  assert.deepEqual(steps(ROLLOUT).map(({ name, state }) => `${name} ${state}`), ["approved passed", "canary passed", "soak current", "fleet waiting", "done waiting"]);
  assert.equal(said(ROLLOUT), "leaf1 runs it; telemetry is watched before the others follow.");
});

test("a batch that soaks is part of the fleet, and a way back is a step of its own", () => {
  const batch = { ...ROLLOUT, stage: 1 };
  assert.equal(steps(batch).find(({ state }) => state === "current").name, "fleet");
  assert.match(said(batch), /^Batch 1 of 1 runs it/);
  const back = { ...ROLLOUT, phase: "rolled_back", ended: true, phases: [...ROLLOUT.phases, { at: "4", phase: "rolled_back" }] };
  assert.deepEqual(steps(back).map(({ state }) => state), ["passed", "passed", "passed", "unreached", "unreached", "passed"]);
  assert.deepEqual(steps(back).flatMap(({ why }) => why ?? []), []); // of what was not reached nothing was left out
  assert.equal(said(back), "No switch had been touched.");
  const restored = { ...back, summary: { ...back.summary, written_progress: { restored: 1, left_alone: 2 } } };
  assert.equal(said(restored), "1 switch returned to what ran before. 2 switches left alone: somebody else has set it since.");
  const lost = { ...back, summary: { ...back.summary, written_progress: { given_up: 1 } } };
  assert.equal(said(lost), "1 switch given up: no undo succeeded, so the change may still run there.");
  assert.match(said({ ...restored, phase: "rolling_back", summary: { ...back.summary, written_progress: { applied: 1, set: 2, staged: 4 } } }), /^3 switches to return/);
  const dry = { ...restored, summary: { ...restored.summary, written: 0 } };
  assert.equal(said(dry), "A dry run: nothing had been written, nothing to undo.");
  assert.equal(progressOf(back.switches[1], back), "never touched");
  assert.equal(progressOf(ROLLOUT.switches[1], ROLLOUT), "staged");
});

test("what only a dry run was set on is counted apart", () => {
  const mixed = (written_progress) => ({ ...ROLLOUT.summary, written: 1, progress: { restored: 3 }, written_progress });
  const back = (progress) => said({ ...ROLLOUT, phase: "rolled_back", ended: true, summary: mixed({ [progress]: 1 }) });
  const only = "A dry run on 2 switches, which nothing was written to.";
  assert.equal(back("restored"), `1 switch returned to what ran before. ${only}`);
  assert.equal(back("staged"), `No switch had been touched. ${only}`);
  assert.match(said({ ...ROLLOUT, phase: "rolling_back", summary: mixed({ set: 1 }) }), /^1 switch to return/);
  assert.equal(said({ ...ROLLOUT, phase: "done", summary: mixed({ set: 1 }) }), `1 switch runs it, as read back. ${only}`);
  assert.match(said({ ...ROLLOUT, phase: "fleet", stage: 1, summary: mixed({ set: 1 }) }), /1 of 1 switch set\.$/);
});

test("hosts are counted beside switches", () => {
  const summary = { ...ROLLOUT.summary, written_progress: { set: 1 }, hosts: 3, hosts_written: 3, hosts_progress: { set: 2, left_out: 1 } };
  const done = { ...ROLLOUT, phase: "done", ended: true, summary };
  assert.equal(said(done), "1 switch and 2 hosts run it, as read back. 1 host left out: no answer before anything was set.");
  assert.match(said({ ...done, phase: "fleet", ended: false }), /2 of 3 hosts, 1 of 3 switches set\.$/);
  assert.match(said({ ...done, phase: "rolling_back", ended: false }), /^1 switch and 2 hosts to return/);
  const undone = { ...summary, written_progress: {}, hosts_progress: { restored: 3 } };
  assert.equal(said({ ...done, phase: "rolled_back", summary: undone }), "3 hosts returned to what ran before.");
});

test("what many switches run is told together, the most frequent first", () => {
  const of = (reads) => ({ differs: false, capabilities: { reads } });
  const run = (kmin) => ({ running: kmin ? { kmin_bytes: kmin, kmax_bytes: 1_600_000, pmax: 0.2 } : null, ...of(true) });
  assert.equal(runs({ ...run(400_000), ...of(false) }), "400\u00a0KB / 1.60\u00a0MB / 20\u00a0% (assumed, from the settings)");
  assert.equal(together([run(0), ...Array(498).fill(run(400_000)), run(100_000)]), "Kmin / Kmax / Pmax: 498 run 400\u00a0KB / 1.60\u00a0MB / 20\u00a0%, 1 not known, 1 runs 100\u00a0KB / 1.60\u00a0MB / 20\u00a0%.");
  assert.match(together([1, 2, 3, 4, 5].map((kmin) => run(1_000 * kmin))), /, 2 run 2 other settings\.$/);
  assert.match(together([run(0), ...Array(2).fill({ ...run(0), differs: true })]), /: 2 differ by queue, 1 not known\.$/);
});

test("a switch that was taken back ends with what it ran, and one that was not reached with what it runs", () => {
  const [before, target] = [{ kmin_bytes: 400_000, kmax_bytes: 1_600_000, pmax: 0.2 }, { kmin_bytes: 2_000, kmax_bytes: 16_000, pmax: 0.3 }];
  const told = (phase, progress, after = target) => {
    const { from, to } = marks({ switch: "leaf1", progress, before, after, target }, { ...ROLLOUT, phase });
    return `${from} → ${to}`;
  };
  const [was, is] = ["400\u00a0KB / 1.60\u00a0MB / 20\u00a0%", "2\u00a0KB / 16\u00a0KB / 30\u00a0%"];
  assert.equal(told("soak", "set"), `${was} → ${is}`);
  assert.equal(told("canary", "waiting", null), `${was} → ${is} wanted`);
  assert.equal(told("rolled_back", "restored"), `${is} → ${was}`);
  assert.equal(told("rolled_back", "staged"), ` → ${was}`);
  assert.equal(told("rolled_back", "left_alone"), `${was} → ${is}`);
});

test("a soak of no time is skipped, also once what came after it is taken back", () => {
  const phases = ["approved", "canary", "fleet", "done"].map((phase, at) => ({ at: String(at), phase }));
  const done = { ...ROLLOUT, phase: "done", ended: true, phases };
  const soaks = [done, { ...done, phase: "rolled_back", phases: [...phases, { at: "9", phase: "rolled_back" }] }].map((one) => steps(one)[2]);
  assert.deepEqual(soaks.map(({ state, why }) => `${state} (${why})`), Array(2).fill("skipped (none: the soak is 0 s long)"));
  assert.equal(steps({ ...done, summary: { ...done.summary, written: 0 } })[2].why, "dry run");
});

test("what is asked for in two parts is put together by name", () => {
  const [far, marks] = [[{ switch: "a", stage: 0 }, { switch: "b", stage: 1 }], [{ switch: "b", after: null }, { switch: "c", after: null }]];
  assert.deepEqual(joined(far, marks, (one) => one.switch), [{ switch: "b", stage: 1, after: null }]);
});
