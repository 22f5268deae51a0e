import assert from "node:assert/strict";
import { test } from "node:test";
import { apart, extent, gainsSaid, policiesOf } from "../src/views/history/gain-series.ts";
import { gainSentence } from "../src/views/why/outcome-words.ts";
import { timeLabels, timeSplits } from "../src/parts/time-axis.ts";
import { NEWEST, older } from "../src/views/history/older.ts";
import { RANGES, drawnFrom, sinceOf } from "../src/views/history/range.ts";
import { continued, drawable, portsOf } from "../src/views/history/series.ts";

const at = (second) => new Date(second * 1000).toISOString();
const port = (...seconds) => ({
  switch: "leaf1", port: "Ethernet0", at: seconds.map(at),
  ...Object.fromEntries(["depth_bytes", "depth_max_bytes", "throughput_bytes_per_s", "marked_packets_per_s"].map((name) => [name, seconds])),
  pause_share: seconds.map(() => null),
});

test("where nothing was seen for longer than a step there is a gap", () => {
  const found = drawable(port(100, 110, 150), 10);
  assert.deepEqual(found.xs, [100, 110, 120, 150]);
  assert.deepEqual(found.depth_bytes, [100, 110, null, 150]);
  assert.deepEqual(found.pause_share, [null, null, null, null]);
  assert.deepEqual(drawable(port(), 10).xs, []);
});

test("a forecast goes on where the past ends", () => {
  const path = { at: [110, 120, 130].map(at), throughput_bytes_per_s: [1, 2, 3], low_bytes_per_s: [0, 1, 2], high_bytes_per_s: [2, 3, 4] };
  const found = continued(drawable(port(100, 110), 10), path);
  assert.deepEqual(found.xs, [100, 110, 120, 130]);
  assert.deepEqual(found.throughput, [100, 110, null, null]);
  assert.deepEqual([found.low, found.forecast, found.high], [[null, null, 1, 2], [null, null, 2, 3], [null, null, 3, 4]]);
  assert.deepEqual(continued(drawable(port(200), 10), path).forecast, [null]);
});

test("ports of two documents are each named once", () => {
  const [one, other] = [port(1), { ...port(1), port: "Ethernet4" }];
  const names = portsOf({ queues: [other] }, undefined, { queues: [one, other] });
  assert.deepEqual(names.map((each) => each.port), ["Ethernet4", "Ethernet0"]);
});

test("asking again within a minute is asking for the same", () => {
  const hour = RANGES.find(({ key }) => key === "hour");
  assert.equal(sinceOf(hour, Date.UTC(2026, 0, 1, 12, 30, 5)), "2026-01-01T11:30:00.000Z");
  assert.equal(sinceOf(hour, Date.UTC(2026, 0, 1, 12, 30, 55)), "2026-01-01T11:30:00.000Z");
});

test("times on an axis are round, within it, and no more than there is room for", () => {
  const from = Date.UTC(2026, 0, 5, 11, 7, 13) / 1000;
  for (const [length, most] of [[60, 5], [3_600, 6], [86_400, 8], [7 * 86_400, 7], [400 * 86_400, 9]]) {
    const found = timeSplits(from, from + length, most);
    assert.ok(found.length >= 2 && found.length <= most + 1, `${length}: ${found.length}`);
    assert.ok(found.every((time) => time >= from && time <= from + length));
    assert.equal(new Set(timeLabels(found)).size, found.length, String(timeLabels(found)));
  }
});

test("times on an axis stay whole where clocks are changed", (t) => {
  const before = process.env.TZ;
  t.after(() => (before === undefined ? delete process.env.TZ : (process.env.TZ = before)));
  process.env.TZ = "Europe/Berlin";
  for (const from of [new Date(2026, 2, 27, 5), new Date(2026, 9, 23, 5)]) {
    for (const [days, most, hours] of [[4, 5, 24], [3, 14, 6]]) {
      const found = timeSplits(from / 1000, from / 1000 + days * 86_400, most).map((at) => new Date(at * 1000));
      assert.ok(found.length >= days && found.every((at) => at.getHours() % hours === 0 && at.getMinutes() === 0), String(found));
    }
  }
});

test("hours of nothing before the first are not drawn", () => {
  assert.equal(drawnFrom(0, 10, 3600), 0);
  assert.equal(drawnFrom(0, 3000, 3600), 2940);
  assert.equal(drawnFrom(0, 50_000, 90_000), 48_000);
});

const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-9, `${one} is not ${other}`);
const SEEN = { at: "2026-01-01T00:00:00Z", recommendation: "a", policy: "balanced", predicted: 0.08, predicted_error: 0.03, measured: 0.05, measured_error: 0.04, why: null };
const UNSEEN = { ...SEEN, measured: null, measured_error: null };

test("measured less predicted has the error of both", () => {
  near(apart(SEEN).value, -0.03);
  near(apart(SEEN).error, 0.05);
  assert.deepEqual(apart(UNSEEN), { value: null, error: null });
  const { low, high } = extent([[0.08, 0.03], [null, null], [-0.02, null]]);
  assert.ok(low < -0.02 && high > 0.11);
});

test("what rounds promised and what came of it is a sentence", () => {
  assert.match(gainsSaid([UNSEEN], "balanced"), /^1 rollout for the balanced policy; none has been measured/);
  assert.match(gainsSaid([SEEN, UNSEEN], "balanced"), /1 was measured\. .* 8.0\u00a0% was predicted and 5.0\u00a0% measured, 3.0\u00a0% apart; none made/);
  assert.match(gainsSaid([{ ...SEEN, measured: -0.04 }], "balanced"), /; 1 made things worse by more than 2\u00a0%/);
  assert.deepEqual(policiesOf([SEEN, { ...SEEN, policy: "latency" }, UNSEEN]), ["balanced", "latency"]);
  assert.equal(gainSentence(SEEN), "The twin predicted a gain of 8.0\u00a0±\u00a03.0\u00a0% for the balanced policy; measured since, it is 5.0\u00a0±\u00a04.0\u00a0%, −3.0\u00a0±\u00a05.0\u00a0% from it.");
  assert.match(gainSentence(UNSEEN), /none has been measured yet/);
});

test("older rounds come without end: more in one answer, then those before its last", () => {
  let listed = NEWEST;
  while (listed.before === null) listed = older(listed, `rec-${listed.most}`);
  assert.deepEqual(listed, { most: 50, before: "rec-1000" });
  assert.deepEqual(older(listed, "rec-1050"), { most: 100, before: "rec-1000" });
});
