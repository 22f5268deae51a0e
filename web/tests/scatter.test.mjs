import assert from "node:assert/strict";
import { test } from "node:test";
import { front, scaleOf, share, ticks } from "../src/parts/scale.ts";
import { nearest, stepped } from "../src/parts/scatter.tsx";

test("a scale holds every value, and a logarithmic one puts factors at equal distances", () => {
  const log = scaleOf([1e3, 1e4, 1e6], true);
  assert.ok(log.low < 1e3 && log.high > 1e6);
  const at = (value) => share(log, value);
  assert.ok(Math.abs(at(1e4) - at(1e3) - (at(1e6) - at(1e5))) < 1e-9);
  const straight = scaleOf([0, 10], false);
  assert.equal(straight.low, 0); // nothing below zero where there is nothing
  assert.ok(share(straight, 10) < 1);
  assert.ok(scaleOf([5, 5], false).high > 5);
  assert.ok(scaleOf([5, 5], true).high > 5);
  assert.deepEqual(scaleOf([], true), { low: 1, high: 10, log: true });
});

test("ticks are round, lie within and are as many as there is room for", () => {
  assert.deepEqual(ticks({ low: -0.06, high: 0.21, log: false }, 6), [-0.05, 0, 0.05, 0.1, 0.15, 0.2]);
  assert.deepEqual(ticks({ low: 900, high: 2e6, log: true }, 4), [1e3, 1e4, 1e5, 1e6]);
  assert.deepEqual(ticks({ low: 40e3, high: 700e3, log: true }, 6), [50e3, 100e3, 200e3, 500e3]);
  for (const [low, high] of [[610, 690], [3.3e3, 3.4e3]]) {
    const found = ticks({ low, high, log: true }, 4);
    assert.ok(found.length >= 2 && found.every((value) => value >= low && value <= high), String(found));
  }
});

test("the front is of those that none beats in both", () => {
  const points = [{ x: 2, y: 2 }, { x: 1, y: 1 }, { x: 3, y: 2 }, { x: 2, y: 1 }, { x: 4, y: 5 }, { x: 1, y: 0 }];
  assert.deepEqual(front(points), [1, 0, 4]);
  assert.deepEqual(front([]), []);
  const beats = (one, other) => one.x <= other.x && one.y >= other.y && (one.x < other.x || one.y > other.y);
  const on = front(points);
  for (const [place, one] of points.entries()) {
    const beaten = points.some((other) => beats(other, one));
    if (on.includes(place)) assert.ok(!beaten);
  }
});

test("keys go along either axis and stop at its ends", () => {
  const dots = [{ x: 3, y: 1 }, { x: 1, y: 2 }, { x: 2, y: 3 }].map((one) => ({ ...one, group: "" }));
  assert.equal(stepped("ArrowRight", null, dots), 1);
  assert.equal(stepped("ArrowRight", 1, dots), 2);
  assert.equal(stepped("ArrowRight", 0, dots), 0);
  assert.equal(stepped("ArrowLeft", null, dots), 0);
  assert.equal(stepped("ArrowUp", 1, dots), 2);
  assert.equal(stepped("End", 1, dots), 0);
  assert.equal(stepped("Escape", 1, dots), null);
  assert.equal(stepped("a", 1, dots), undefined);
});

test("a pointer on a large symbol means it, not a small one that it covers", () => {
  const dots = [{ x: 0, y: 0, group: "star" }, { x: 2, y: 0, group: "dot" }, { x: 12, y: 0, group: "dot" }];
  const at = (left, top) => nearest(dots, (one) => (one.group === "star" ? 10 : 3), left, top, (x) => x, (y) => y);
  assert.equal(at(2, 0), 0);
  assert.equal(at(12, 1), 2);
  assert.equal(at(60, 0), null);
});
