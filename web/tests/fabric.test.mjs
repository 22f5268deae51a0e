import assert from "node:assert/strict";
import { test } from "node:test";
import { deliveredBytes } from "../src/fabric/delivered.ts";
import { halves, layout } from "../src/fabric/layout.ts";
import { fabric, key, loadClass, standing, zone } from "../src/fabric/model.ts";

const MARK = { kmin_bytes: 100, kmax_bytes: 400, pmax: 0.1 };

function leafSpine(leaves, spines, hosts) {
  const names = (kind, number) => Array.from({ length: number }, (_, index) => ({ name: `${kind}${index + 1}` }));
  const links = [];
  for (let leaf = 1; leaf <= leaves; leaf += 1) {
    for (let host = 1; host <= hosts; host += 1) {
      links.push({ a: `leaf${leaf}`, a_port: `down${host}`, b: `host${(leaf - 1) * hosts + host}`, rate_gbps: 100 });
    }
    for (let spine = 1; spine <= spines; spine += 1) {
      links.push({ a: `leaf${leaf}`, a_port: `up${spine}`, b: `spine${spine}`, b_port: `port${leaf}`, rate_gbps: 400 });
    }
  }
  return { hosts: names("host", leaves * hosts), switches: [...names("leaf", leaves), ...names("spine", spines)], links };
}

const queue = (of, port, depth, rate = 0) => ({
  switch: of, port, queue: 3, samples: 1, depth_mean_bytes: depth / 2, depth_p99_bytes: depth, depth_max_bytes: depth,
  marked_ratio: null, marked_packets_per_s: null, throughput_bytes_per_s: rate, capacity_bytes_per_s: null,
});

test("tiers follow from the distance to hosts, and ports lead up or down", () => {
  const made = fabric(leafSpine(2, 2, 3), [], [], null);
  assert.deepEqual(made.switches.map(({ name, tier }) => [name, tier]), [["leaf1", 1], ["leaf2", 1], ["spine1", 2], ["spine2", 2]]);
  assert.deepEqual(made.switches[0].ports.map(({ to, up }) => [to, up]).slice(0, 3), [["spine1", true], ["spine2", true], ["host1", false]]);
  assert.equal(made.ports.size, 2 * (3 + 2 + 2));
});

test("a port has the load of all of its queues and the depth of its deepest", () => {
  const rate = 0.3 * (100e9 / 8);
  const made = fabric(leafSpine(1, 1, 1), [queue("leaf1", "down1", 50, rate), { ...queue("leaf1", "down1", 300, rate), queue: 4 }], [], MARK);
  const port = made.ports.get(key("leaf1", "down1"));
  assert.ok(Math.abs(port.load - 0.6) < 1e-9);
  assert.equal(port.queue.queue, 4);
  assert.equal(zone(port), 1);
  assert.equal(zone(made.ports.get(key("leaf1", "up1"))), null);
});

test("what a queue runs by itself goes before what its switch runs", () => {
  const own = { port: "down1", queue: 3, kmin_bytes: 10, kmax_bytes: 20, pmax: 1 };
  const made = fabric(leafSpine(1, 1, 1), [queue("leaf1", "down1", 300)], [{ name: "leaf1", running: MARK, queues: [own] }], null);
  assert.equal(zone(made.ports.get(key("leaf1", "down1"))), 2);
});

test("loads fall into classes, and depths into thirds", () => {
  assert.deepEqual([null, 0, 0.25, 0.6, 0.8, 0.95, 1.2].map(loadClass), [null, 0, 1, 2, 3, 4, 4]);
  assert.deepEqual([0, 100, 250, 400, 800, 1e9].map((depth) => Number(standing(depth, MARK).toFixed(3))), [0, 0.333, 0.5, 0.667, 1, 1]);
});

for (const [leaves, spines, hosts, width, cabled] of [[2, 2, 8, 900, true], [2, 2, 8, 340, true], [4, 2, 16, 340, false], [32, 16, 16, 1000, false]]) {
  test(`${leaves} leaves, ${spines} spines, ${hosts} hosts each fit ${width} pixels ${cabled ? "with" : "without"} cables`, () => {
    const made = fabric(leafSpine(leaves, spines, hosts), [], [], null);
    const drawn = layout(made, width);
    assert.equal(drawn.cables.length > 0, cabled);
    if (cabled) assert.equal(drawn.cables.length, leaves * (spines + hosts));
    assert.equal(drawn.faces.flatMap((face) => face.gauges).length, made.ports.size);
    for (const { x, y, width: wide, height, gauges } of drawn.faces) {
      assert.ok(x >= 0 && x + wide <= width + 1e-6);
      for (const gauge of gauges) {
        assert.ok(gauge.x >= x && gauge.x + drawn.gauge.width <= x + wide + 1e-6);
        assert.ok(gauge.y >= y && gauge.y + drawn.gauge.height <= y + height + 1e-6);
      }
    }
    const spots = drawn.faces.flatMap((face) => face.gauges.map((gauge) => `${gauge.x.toFixed(2)} ${gauge.y}`));
    assert.equal(new Set(spots).size, spots.length);
  });
}

test("of a thousand queues every switch has its face", () => {
  const made = fabric(leafSpine(32, 16, 16), [], [], null);
  assert.ok(made.ports.size > 1000);
  const faces = layout(made, 1000).faces;
  assert.equal(faces.length, 48);
});

test("the halves of a cable meet in its middle", () => {
  const [near, far] = halves({ from: [0, 0], to: [100, 80] });
  assert.ok(near.endsWith("50.0 40.0"));
  assert.ok(far.endsWith("50.0 40.0"));
});

test("without a topology the switches that queues tell of are drawn", () => {
  const made = fabric(null, [queue("tor", "p1", 10), queue("tor", "p2", 20)], [], null);
  assert.equal(layout(made, 400).faces.length, 1);
});

test("what is delivered is what leaves the ports that hosts are at, each byte once", () => {
  const queue = (name, port, rate) => ({ switch: name, port, throughput_bytes_per_s: rate });
  const topology = {
    hosts: [{ name: "h1" }, { name: "h2" }], switches: [{ name: "leaf1" }, { name: "spine1" }],
    links: [{ a: "h1", b: "leaf1", b_port: "e1" }, { a: "leaf1", a_port: "e2", b: "h2" }, { a: "leaf1", a_port: "e3", b: "spine1", b_port: "e1" }],
  };
  const queues = [queue("leaf1", "e1", 5), queue("leaf1", "e2", 7), queue("leaf1", "e3", 100), queue("spine1", "e1", 100)];
  assert.equal(deliveredBytes(queues, topology), 12);
  assert.equal(deliveredBytes([queue("leaf1", "e1", null)], topology), null);
  assert.equal(deliveredBytes(queues, null), null);
});
