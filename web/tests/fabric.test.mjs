import assert from "node:assert/strict";
import { test } from "node:test";
import { said } from "../src/fabric/cells.tsx";
import { halves, layout } from "../src/fabric/layout.ts";
import { fullness, large, most, oneSwitch, podsOf, zoneOf } from "../src/fabric/overview.ts";
import { fitted } from "../src/fabric/names.ts";
import { fabric, key, loadClass, queuesOf, standing, zone } from "../src/fabric/model.ts";

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
  const off = { ...own, kmin_bytes: null, kmax_bytes: null, pmax: null };
  assert.equal(fabric(leafSpine(1, 1, 1), [queue("leaf1", "down1", 300)], [{ name: "leaf1", running: MARK, queues: [off] }], MARK).ports.get(key("leaf1", "down1")).mark, null, "it does not mark");
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

const columns = (names, role, depth) => ({
  switches: names, role: names.map(() => role), ports: names.map(() => 4), hosts: names.map(() => 0), queues: names.map(() => 4),
  over_kmin: names.map(() => 1), over_kmax: names.map(() => 0), depth_p99_bytes: depth, deepest_port: names.map(() => "p1"),
  kmin_bytes: names.map(() => 100), kmax_bytes: names.map(() => 400), load: names.map(() => 0.5), busiest_port: names.map(() => "p2"),
  marked_ratio: names.map(() => null), pause_share: names.map(() => null), drops_per_s: names.map(() => null),
});
const overview = (pods) => ({ topology: "declared", host_count: 0, switch_count: 3, port_count: 12, queue_count: 12, delivered_bytes_per_s: null, pods });

test("columns become switches, what is above the pods first, and the highest of a pod", () => {
  const pod = columns(["pod2-rack10", "pod2-rack2", "pod2-agg1"], "leaf", [50, 250, null]);
  pod.role = ["leaf", "leaf", "spine"];
  const pods = podsOf(overview([{ name: "pod10", ...columns(["a"], "leaf", [1]) }, { name: "pod2", ...pod }, { name: "core", ...columns(["c"], "core", [2]) }]));
  assert.deepEqual(pods.map(({ name }) => name), ["core", "pod2", "pod10"]);
  assert.deepEqual(pods[1].switches.map(({ name, depth_p99_bytes: depth }) => [name, depth]), [["pod2-agg1", null], ["pod2-rack2", 250], ["pod2-rack10", 50]]);
  assert.deepEqual(pods[1].switches.map(zoneOf), [null, 1, 0]);
  assert.deepEqual(pods[1].switches.map((one) => Number(fullness(one, 1000).toFixed(3))), [0, 0.5, 0.167]);
  assert.equal(most(pods.flatMap(({ switches }) => switches), "depth_p99_bytes").name, "pod2-rack2");
});

test("a fabric is large by its switches or by its ports", () => {
  const of = (switches, ports) => large({ switch_count: switches, port_count: ports });
  assert.deepEqual([of(64, 2048), of(65, 10), of(2, 2049)], [false, true, true]);
});

test("one switch is drawn with all its ports, those that lead up first", () => {
  const port = (name, up, queues) => ({ port: name, peer: `to ${name}`, peer_port: null, up, capacity_bytes_per_s: 100, queues, runs: MARK });
  const made = oneSwitch({ name: "leaf1", role: "leaf", pod: "pod1", ports: [port("p1", false, [queue("leaf1", "p1", 300, 20), { ...queue("leaf1", "p1", 10, 30), queue: 4 }]), port("p2", true, [])] });
  assert.deepEqual(made.switches[0].ports.map(({ port: name, load, queue: deep }) => [name, load, deep?.queue]), [["p2", null, undefined], ["p1", 0.5, 3]]);
  assert.equal(layout(made, 340).faces.length, 1);
});

test("queues told in columns are those of the switches that they name", () => {
  const columns = {
    names: ["leaf1", "leaf2"], switch: [1, 0], port: ["down2", "down1"], queue: [3, 4], depth_mean_bytes: [9, null], depth_p99_bytes: [90, 70],
    marked_ratio: [0.5, null], throughput_bytes_per_s: [1, 2], capacity_bytes_per_s: [10, null],
  };
  const [deepest, other] = queuesOf(columns);
  assert.deepEqual([deepest.switch, deepest.port, deepest.queue, deepest.depth_p99_bytes, deepest.marked_ratio], ["leaf2", "down2", 3, 90, 0.5]);
  assert.deepEqual([other.switch, other.port, other.queue, other.depth_mean_bytes, other.capacity_bytes_per_s], ["leaf1", "down1", 4, null, null]);
});

test("names that do not fit lose what all share, and are cut", () => {
  assert.deepEqual(fitted(["leaf1", "leaf2"], [8, 8]), ["leaf1", "leaf2"]);
  assert.deepEqual(fitted(["dc1-leaf10.example.net", "dc1-leaf11.example.net"], [8, 30]), ["10", "11"]);
  assert.deepEqual(fitted(["dc1-leaf11", "dc1-spine21"], [6, 6]), ["leaf11", "spine…"]);
  assert.deepEqual(fitted(["a-long-name"], [6]), ["a-lon…"]);
  assert.deepEqual(fitted(["switch", "switch1"], [4, 4]), ["h", "h1"]);
});

test("a little loss or pause of a switch is not told as none", () => {
  const one = { name: "leaf1", depth_p99_bytes: null, load: null, over_kmin: 0 };
  assert.match(said({ ...one, pause_share: 2e-5, drops_per_s: 0.3 }), /paused under 0\.01\u00a0% · 0\.3 drops a second$/);
  assert.match(said({ ...one, pause_share: 0, drops_per_s: 0 }), /load not known$/);
});
