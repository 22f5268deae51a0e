import assert from "node:assert/strict";
import { test } from "node:test";
import { amongAlike, draws, foundBy } from "../src/views/why/found.ts";
import { isoGain, levels, persistentShare, shares, sharesByFigures } from "../src/views/why/frontier.ts";
import { pieces, tradedWords } from "../src/views/why/gain-words.ts";

const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-9, `${one} is not ${other}`);
const figures = (elephant, goodput, mice, probe = null) => ({
  slowdown: { elephant: { mean: elephant }, mice: { p99: mice } }, goodput_gbps: goodput, probe_slowdown: { p50: null, p99: probe },
});
const NOW = { ...figures(4, 500, 10), kmin_bytes: 1, kmax_bytes: 2, pmax: 1, window_s: 1, gain: { bulk: 0, delay: 0, harm: 0 } };
const BALANCED = { name: "balanced", bulk: 0.5, delay: 0.5, harm_price: 10 };

test("a part over its weight is the logarithm of what one gets beside now", () => {
  const one = { ...figures(5, 500, 5), gain: { bulk: -0.5 * Math.log(1.25), delay: 0.5 * Math.log(2), harm: 0 } };
  const found = shares(one, NOW, BALANCED, 0);
  near(found.bulk, 0.8);
  near(found.delay, 0.5);
  const speed = shares(one, NOW, { ...BALANCED, bulk: 1, delay: 0 }, 0); // what weighs nothing is told by the figures
  near(speed.delay, 0.5);
  near(speed.bulk, Math.exp(one.gain.bulk));
});

test("figures alone tell mice and probe by the weight of the policy, and of both kinds of bulk traffic by their weight", () => {
  const one = figures(2, 1000, 5, 3);
  near(sharesByFigures(one, { ...NOW, probe_slowdown: { p99: 6 } }, 0, {}).delay, 0.5);
  const late = { ...NOW, probe_slowdown: { p99: 3 } };
  near(sharesByFigures(one, late, 0, { probe: 0.25 }).delay, 0.5 ** 0.75);
  near(sharesByFigures(figures(2, 1000, null, 1.5), late, 0, { probe: 0.25 }).delay, 0.5);
  near(sharesByFigures(one, NOW, 0.5, null).bulk, 2);
  near(sharesByFigures(figures(null, 1000, null), NOW, 0, null).bulk, 2);
  assert.deepEqual(sharesByFigures(figures(null, null, null), NOW, 0, null), { bulk: null, delay: null });
});

test("the weight of flows that never end follows from parts and figures of the first engine over the whole window", () => {
  const made = (elephant, goodput, window_s = 1) => {
    const bulk = 0.5 * (0.75 * Math.log(4 / elephant) + 0.25 * Math.log(goodput / 500));
    return { ...figures(elephant, goodput, 10), kmin_bytes: elephant, kmax_bytes: 9, pmax: 1, window_s, gain: { bulk, delay: 0, harm: 0 } };
  };
  const both = { ...made(8, 700), gain: { bulk: 3, delay: 0, harm: 0 } };
  const round = { incumbent: NOW, policy: BALANCED, candidates: [NOW, made(5, 520), made(3, 450), both, { ...made(2, 300, 0.5), gain: both.gain }], second_opinion: { candidates: [{ first: both }] } };
  near(persistentShare(round), 0.25);
  assert.equal(persistentShare({ ...round, candidates: [NOW] }), 0);
});

test("lines of equal gain are straight on logarithmic scales and end where the drawing does", () => {
  const scale = { low: 0.5, high: 2, log: true };
  const zero = isoGain(0, BALANCED, scale, scale);
  for (const value of [...zero.from, ...zero.to]) assert.ok(value > 0.499 && value < 2.001);
  near(zero.from[0], zero.from[1]);
  const better = isoGain(0.1, BALANCED, scale, scale);
  for (const [x, y] of [better.from, better.to]) near(0.5 * Math.log(y) - 0.5 * Math.log(x), 0.1);
  assert.equal(isoGain(2, BALANCED, scale, scale), null);
  const bulk = isoGain(0.1, { bulk: 1, delay: 0 }, scale, scale);
  near(bulk.from[1], Math.exp(0.1));
  near(bulk.to[1], bulk.from[1]);
  const delay = isoGain(0.1, { bulk: 0, delay: 1 }, scale, scale);
  near(delay.to[0], Math.exp(-0.1));
  assert.equal(isoGain(3, { bulk: 0, delay: 1 }, scale, scale), null);
  assert.equal(isoGain(3, { bulk: 1, delay: 0 }, scale, scale), null);
  assert.deepEqual(levels([-0.11, 0.24]), [-0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.2]);
});

test("the parts stand end to end, the better to the right of 0", () => {
  const found = pieces({ bulk: -0.15, delay: 0.4, harm: 0.01 });
  assert.deepEqual(found.map(({ part, from }) => [part, from]), [["bulk", 0], ["delay", 0], ["harm", 0.4]]);
  near(found.reduce((sum, { from, to }) => sum + to - from, 0), 0.26);
  assert.deepEqual(pieces({ bulk: null, delay: 0, harm: -0 }), []);
});

test("what made the difference is said, the best first", () => {
  assert.equal(
    tradedWords({ bulk: -0.15, delay: 0.4, harm: -0.01 }, { bulk: 0.74, delay: 0.45 }),
    "small messages and mice 55\u00a0% faster at p99 (+40\u00a0%), more pauses and losses (−1.0\u00a0%), bulk traffic at 74\u00a0% of its speed (−15\u00a0%)",
  );
});

test("which draw found it, and how many each gave", () => {
  assert.equal(foundBy({ origin: "narrowed", source: "near spread" }), "a narrowed draw near a space-filling draw");
  assert.equal(foundBy({ origin: "narrowed", source: "near NVIDIA, 100G" }), "a narrowed draw near NVIDIA, 100G");
  assert.equal(foundBy({ origin: "drawn", source: "" }), "a biased draw");
  assert.equal(foundBy({ origin: "vendor", source: "NVIDIA, 100G" }), "a vendor's default: NVIDIA, 100G");
  const of = (...origins) => origins.map((origin) => ({ origin }));
  assert.equal(draws(of("incumbent", "spread", "drawn", "drawn")), "2 biased draws, 1 space-filling draw");
});

test("a recommendation that stands is not called the nearest", () => {
  assert.equal(amongAlike("drawn", 0, true, "what runs"), "");
  assert.equal(amongAlike("drawn", 1, false, "what runs"), " 1 other could not be told apart from the best.");
  assert.match(amongAlike("drawn", 2, true, "what runs"), /; of those sure to gain, this is the nearest to what runs\.$/);
  assert.match(amongAlike("standing", 2, true, "what runs"), /^ It stands, as recommended before: no other is surely better/);
  assert.equal(foundBy({ origin: "standing", source: "" }), "an earlier round");
});
