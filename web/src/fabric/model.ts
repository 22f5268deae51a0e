// The fabric to be drawn: switches in tiers above their hosts, and each egress port with its load and its queue.
import type { DrawnQueue, Figure, QueueColumns, SwitchQueues, Topology, Watermark } from "../service/documents.ts";
import { natural } from "../parts/order.ts";

export type Zone = 0 | 1 | 2; // below Kmin, between Kmin and Kmax, above Kmax
export type LoadClass = 0 | 1 | 2 | 3 | 4;

export interface Port {
  switch: string;
  port: string;
  to: string | null; // host or switch at the other end
  toPort: string | null;
  up: boolean; // to a switch of a higher tier
  load: Figure; // share of the capacity, all queues of the port
  throughput: Figure;
  capacity: Figure;
  queue: DrawnQueue | null; // the deepest of the port
  mark: Watermark | null; // what that queue runs
}

export interface Switch {
  name: string;
  tier: number; // 1: has hosts
  ports: Port[];
}

export interface Fabric {
  switches: Switch[]; // the lowest tier first, by name
  hosts: string[];
  ports: Map<string, Port>; // by key()
}

export const LOAD_STEPS = [0.25, 0.5, 0.75, 0.9] as const;
export const key = (name: string, port: string): string => `${name}\u0000${port}`;

export const loadClass = (load: Figure): LoadClass | null =>
  load === null ? null : (LOAD_STEPS.filter((step) => load >= step).length as LoadClass);

export function zone({ queue, mark }: Port): Zone | null {
  const depth = queue?.depth_p99_bytes ?? null;
  if (depth === null || mark === null) return null;
  return depth <= mark.kmin_bytes ? 0 : depth <= mark.kmax_bytes ? 1 : 2;
}

// Where a depth stands in a gauge of thirds: below Kmin, up to Kmax, and above up to twice that. From 0 to 1.
export function standing(depth: number, mark: Watermark): number {
  const { kmin_bytes: kmin, kmax_bytes: kmax } = mark;
  if (depth <= kmin) return kmin === 0 ? 1 / 3 : depth / kmin / 3;
  if (depth <= kmax) return 1 / 3 + (depth - kmin) / (kmax - kmin) / 3;
  return Math.min(1, 2 / 3 + (depth - kmax) / Math.max(1, kmax) / 3);
}

export const queuesOf = ({ names, switch: places, port, queue, ...figures }: QueueColumns): DrawnQueue[] =>
  places.map((place, row) => ({
    switch: names[place] as string,
    port: port[row] as string,
    queue: queue[row] as number,
    depth_mean_bytes: figures.depth_mean_bytes[row] as Figure,
    depth_p99_bytes: figures.depth_p99_bytes[row] as Figure,
    marked_ratio: figures.marked_ratio[row] as Figure,
    throughput_bytes_per_s: figures.throughput_bytes_per_s[row] as Figure,
    capacity_bytes_per_s: figures.capacity_bytes_per_s[row] as Figure,
  }));

export function fabric(
  topology: Topology | null,
  queues: readonly DrawnQueue[],
  running: readonly SwitchQueues[],
  otherwise: Watermark | null,
): Fabric {
  const tiers = tiersOf(topology);
  const marks = marksOf(running, otherwise);
  const ports = new Map<string, Port>();
  const add = (name: string, port: string, to: string | null, toPort: string | null, gbps: number | null = null) =>
    ports.set(key(name, port), {
      switch: name, port, to, toPort, up: to !== null && (tiers.get(to) ?? 0) > (tiers.get(name) ?? 1),
      load: null, throughput: null, capacity: gbps === null ? null : (gbps * 1e9) / 8, queue: null, mark: null,
    });
  for (const { a, a_port: aPort, b, b_port: bPort, rate_gbps: gbps = null } of topology?.links ?? []) {
    if (aPort !== undefined && tiers.get(a) !== 0) add(a, aPort, b, bPort ?? null, gbps);
    if (bPort !== undefined && tiers.get(b) !== 0) add(b, bPort, a, aPort ?? null, gbps);
  }
  for (const queue of queues) {
    const at = key(queue.switch, queue.port);
    if (!ports.has(at)) add(queue.switch, queue.port, null, null);
    const port = ports.get(at);
    if (!port) continue;
    if (queue.throughput_bytes_per_s !== null) port.throughput = (port.throughput ?? 0) + queue.throughput_bytes_per_s;
    port.capacity = queue.capacity_bytes_per_s ?? port.capacity;
    if (!port.queue || (queue.depth_p99_bytes ?? -1) > (port.queue.depth_p99_bytes ?? -1)) {
      port.queue = queue;
      port.mark = marks(queue);
    }
  }
  const switches = new Map<string, Switch>();
  for (const [name, tier] of tiers) if (tier > 0) switches.set(name, { name, tier, ports: [] });
  for (const port of ports.values()) {
    if (port.throughput !== null && port.capacity) port.load = port.throughput / port.capacity;
    let owner = switches.get(port.switch);
    if (!owner) switches.set(port.switch, (owner = { name: port.switch, tier: 1, ports: [] }));
    owner.ports.push(port);
  }
  for (const { ports: own } of switches.values()) {
    own.sort((one, other) => Number(other.up) - Number(one.up) || natural(one.to ?? one.port, other.to ?? other.port));
  }
  return {
    switches: [...switches.values()].sort((one, other) => one.tier - other.tier || natural(one.name, other.name)),
    hosts: (topology?.hosts ?? []).map(({ name }) => name).sort(natural),
    ports,
  };
}

// How many links away the nearest host is: 0 for hosts, 1 for leaves, 2 for spines.
function tiersOf(topology: Topology | null): Map<string, number> {
  const tiers = new Map<string, number>();
  if (!topology) return tiers;
  const beside = new Map<string, string[]>();
  for (const { a, b } of topology.links) {
    beside.set(a, [...(beside.get(a) ?? []), b]);
    beside.set(b, [...(beside.get(b) ?? []), a]);
  }
  let edge = topology.hosts.map(({ name }) => name);
  for (let tier = 0; edge.length > 0; tier += 1) {
    for (const name of edge) tiers.set(name, tier);
    edge = [...new Set(edge.flatMap((name) => beside.get(name) ?? []))].filter((name) => !tiers.has(name));
  }
  for (const { name } of topology.switches) if (!tiers.has(name)) tiers.set(name, 1);
  return tiers;
}

// What a queue runs: as it was read from the switch, else as the tuner takes it to run.
function marksOf(running: readonly SwitchQueues[], otherwise: Watermark | null): (queue: DrawnQueue) => Watermark | null {
  const bySwitch = new Map(running.map((one) => [one.name, one.running]));
  const byQueue = new Map<string, Watermark | null>(); // null: it does not mark
  for (const { name, queues } of running) {
    for (const { port, queue, kmin_bytes, kmax_bytes, pmax } of queues) {
      const off = kmin_bytes === null || kmax_bytes === null || pmax === null;
      byQueue.set(`${key(name, port)}\u0000${queue}`, off ? null : { kmin_bytes, kmax_bytes, pmax });
    }
  }
  return ({ switch: name, port, queue }) => {
    const own = byQueue.get(`${key(name, port)}\u0000${queue}`);
    return own !== undefined ? own : bySwitch.get(name) ?? otherwise;
  };
}

export const deepestFirst = (one: Port, other: Port): number =>
  (other.queue?.depth_p99_bytes ?? -1) - (one.queue?.depth_p99_bytes ?? -1) || (other.load ?? -1) - (one.load ?? -1);
