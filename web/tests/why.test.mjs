import assert from "node:assert/strict";
import { test } from "node:test";
import { probability } from "../src/recommendation/probability.ts";
import { acrossAxes, upAxes } from "../src/views/why/axes.ts";
import { sentence } from "../src/views/why/outcome-words.ts";
import { termRows, wonBy } from "../src/views/why/terms.ts";

const MARK = { kmin_bytes: 100, kmax_bytes: 300, pmax: 0.2 };

test("marking is nothing up to Kmin, a line up to Pmax at Kmax, and everything beyond", () => {
  assert.deepEqual([0, 100, 200, 300, 301].map((queue) => probability(MARK, queue)), [0, 0, 0.1, 0.2, 1]);
});

const NOW = { ...MARK, terms: { throughput: 0.2, queue: 0.8, loss: 0 }, score: -0.6, raw: { throughput: 2, queue: Math.log(11_000) } };
const BETTER = { ...MARK, kmin_bytes: 50, terms: { throughput: 0.1, queue: 0.3, loss: 0 }, score: -0.2, raw: { throughput: 3, queue: Math.log(6_000) } };
const ROUND = {
  status: "pending", weights: { throughput: 1, queue: 1, loss: 1 }, queue_is: "log_queue", throughput_is: "slowdown_and_goodput",
  candidates: [NOW, BETTER], incumbent: NOW, recommendation: BETTER,
};

test("what each term adds is its weight times its change, and all of them are the change of the score", () => {
  const rows = termRows(ROUND, NOW, BETTER);
  assert.deepEqual(rows.map(({ counts }) => Math.round(counts * 100) / 100 + 0), [-0.1, 0.5, 0]);
  assert.equal(wonBy(ROUND, rows), "It scores 0.400 more than what runs: a shorter queue adds 0.500, less throughput takes 0.100.");
  assert.match(wonBy({ ...ROUND, status: "approved" }, rows), /more than what ran:/);
  const weighed = termRows({ ...ROUND, weights: { throughput: 0.3, queue: 1, loss: 1 } }, NOW, BETTER);
  assert.ok(Math.abs(weighed[0].counts + 0.03) < 1e-9);
});

test("without weights nothing is claimed", () => {
  const rows = termRows({ ...ROUND, weights: null }, NOW, BETTER);
  assert.ok(rows.every(({ counts }) => counts === null));
  assert.equal(wonBy(ROUND, rows), null);
});

test("the axes are of raw terms, which compare across all windows", () => {
  const [queue] = acrossAxes({ ...ROUND, candidates: [{ ...NOW, slowdown: { mice: { p99: null } }, queue_p99_bytes: null }] });
  assert.equal(Math.round(queue.of(NOW)), 10_000);
  assert.match(queue.show(queue.of(NOW)), /^10(\.0)?\u00a0KB$/);
  const [throughput] = upAxes(ROUND);
  assert.equal(throughput.show(throughput.of(BETTER)), "+50\u00a0%");
  assert.ok(queue.everyone && throughput.everyone);
});

const OUTCOME = { predicted: { queue_change: -0.3 }, queue_change: -0.2, since: "2026-01-01T00:00:00Z", after: {} };

test("what came of it is said as far as it is known", () => {
  assert.equal(sentence(OUTCOME), "The twin predicted a mean queue 30\u00a0% shorter; measured since, it is 20\u00a0% shorter.");
  assert.match(sentence({ ...OUTCOME, after: null }), /nothing comparable has been measured/);
  assert.match(sentence({ ...OUTCOME, since: null, after: null }), /no switch has been set yet/);
  assert.match(sentence({ ...OUTCOME, queue_change: 0.5 }), /it is 50\u00a0% longer/);
  const traffic = (bytes) => ({ throughput_bytes_per_s: bytes });
  assert.match(sentence({ ...OUTCOME, before: traffic(100), after: traffic(130) }), /But 30\u00a0% more traffic passed/);
  assert.doesNotMatch(sentence({ ...OUTCOME, before: traffic(100), after: traffic(105) }), /traffic/);
});
