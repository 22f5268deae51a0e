import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../src/service/client.ts";
import { Asking } from "../src/views/whatif/asking.ts";
import { DIALS, STEPS, stepOf, turned, valueAt } from "../src/views/whatif/dials.ts";
import { beside } from "../src/views/whatif/words.ts";

const MARK = { kmin_bytes: 100_000, kmax_bytes: 400_000, pmax: 0.1 };
const OTHER = { ...MARK, kmin_bytes: 50_000 };

test("a slider goes from end to end in factors, and comes back to where it was", () => {
  for (const dial of DIALS) {
    assert.deepEqual([valueAt(dial, 0), valueAt(dial, STEPS)], [dial.low, dial.high]);
    for (let step = 0; step <= STEPS; step += 25) assert.equal(stepOf(dial, valueAt(dial, step)), step);
    assert.equal(stepOf(dial, dial.low / 10), 0);
  }
});

test("Kmin stays below Kmax whichever is moved, and what cannot be is not taken", () => {
  assert.deepEqual(turned(MARK, "kmin_bytes", 500_000), { kmin_bytes: 500_000, kmax_bytes: 500_001, pmax: 0.1 });
  assert.deepEqual(turned(MARK, "kmax_bytes", 50_000), { kmin_bytes: 49_999, kmax_bytes: 50_000, pmax: 0.1 });
  for (const [name, value] of [["pmax", 0], ["pmax", 1.1], ["kmin_bytes", -1], ["kmax_bytes", 0], ["pmax", NaN], ["kmin_bytes", Infinity]]) {
    assert.equal(turned(MARK, name, value), null, `${name} ${value}`);
  }
});

// A service that answers when told to, and a clock that goes off when told to.
function stage() {
  const asked = [];
  const timers = new Set();
  const ask = (wanted, signal) => new Promise((resolve, reject) => asked.push({ ...wanted, signal, resolve, reject }));
  const wait = (work) => {
    timers.add(work);
    return () => timers.delete(work);
  };
  const rest = () => {
    const due = [...timers];
    timers.clear();
    for (const work of due) work();
  };
  return { asking: new Asking(ask, wait), asked, rest };
}
const said = (mark) => ({ results: [{ ...mark, status: "ok" }], incumbent: { ...MARK, status: "ok" }, trajectories: null, notes: [] });
const settle = () => new Promise((resolve) => setImmediate(resolve));

test("only the last of many moves is asked about", async () => {
  const { asking, asked, rest } = stage();
  for (const kmin_bytes of [1, 2, 3]) asking.want({ mark: { ...MARK, kmin_bytes }, curves: false });
  assert.equal(asked.length, 0);
  assert.ok(asking.busy.value);
  rest();
  assert.deepEqual(asked.map(({ mark }) => mark.kmin_bytes), [3]);
  asked[0].resolve(said(asked[0].mark));
  await settle();
  assert.equal(asking.answer.value.prediction.kmin_bytes, 3);
  assert.ok(!asking.busy.value);
});

test("an answer that is not wanted any more is dropped, and its call ended", async () => {
  const { asking, asked, rest } = stage();
  asking.want({ mark: MARK, curves: false });
  rest();
  asking.want({ mark: OTHER, curves: false });
  assert.ok(asked[0].signal.aborted);
  rest();
  asked[1].resolve(said(OTHER));
  await settle();
  asked[0].resolve(said(MARK));
  await settle();
  assert.equal(asking.answer.value.mark, OTHER);
  asking.want({ mark: MARK, curves: false });
  rest();
  asked[2].reject(new Problem(503));
  asking.stop();
  await settle();
  assert.equal(asking.problem.value, null);
});

test("what is known is not asked again, but with curves it is", async () => {
  const { asking, asked, rest } = stage();
  asking.want({ mark: MARK, curves: false });
  rest();
  asked[0].resolve(said(MARK));
  await settle();
  asking.want({ mark: MARK, curves: false });
  rest();
  assert.equal(asked.length, 1);
  asking.want({ mark: MARK, curves: true });
  rest();
  assert.equal(asked.length, 2);
});

test("a refusal is told, and asking again asks", async () => {
  const { asking, asked, rest } = stage();
  asking.want({ mark: MARK, curves: false });
  rest();
  asked[0].reject(new Problem(409, { detail: "nothing is measured" }));
  await settle();
  assert.equal(asking.problem.value.message, "nothing is measured");
  assert.ok(!asking.busy.value);
  asking.again();
  rest();
  assert.equal(asked.length, 2);
  assert.equal(asking.problem.value, null);
});

test("a refusal goes with what was refused, also where what is wanted then is known", async () => {
  const { asking, asked, rest } = stage();
  asking.want({ mark: OTHER, curves: false });
  rest();
  asked[0].reject(new Problem(422, { detail: "no such watermark" }));
  await settle();
  asking.stop();
  assert.equal(asking.problem.value, null);
});

const FIGURES = {
  ...MARK, queue_mean_bytes: 100, queue_p99_bytes: 1000, goodput_gbps: 10, loss_bytes: 0, pfc_pause_s: 0,
  slowdown: { mice: { p99: 4 }, elephant: { mean: null } },
};

test("differences are told in percent and in words, what is unknown is left out", () => {
  assert.equal(
    beside(FIGURES, { ...FIGURES, queue_mean_bytes: 50, slowdown: { mice: { p99: 3 }, elephant: { mean: null } } }),
    "Beside what runs: the mean queue 50\u00a0% shorter and the slowest mice 25\u00a0% faster; the 99th percentile queue and goodput unchanged.",
  );
  assert.match(beside(FIGURES, FIGURES), /^No figure differs/);
  assert.match(beside(FIGURES, { ...FIGURES, loss_bytes: 5 }), /Packets would be lost/);
});
