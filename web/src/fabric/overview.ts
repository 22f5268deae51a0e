// The fabric by pods and switches, as the service adds them up: what a map of hundreds of switches is drawn from.
import type { Figure, Queue, Watermark } from "../service/documents.ts";
import { natural } from "../parts/order.ts";
import { type Fabric, type Port, type Zone, key, standing } from "./model.ts";

// A value for each of `switches`.
interface Columns {
  role: string[];
  ports: number[];
  hosts: number[];
  queues: number[];
  over_kmin: number[];
  over_kmax: number[];
  depth_p99_bytes: Figure[];
  deepest_port: (string | null)[];
  kmin_bytes: Figure[];
  kmax_bytes: Figure[];
  load: Figure[];
  busiest_port: (string | null)[];
  marked_ratio: Figure[];
  pause_share: Figure[];
  drops_per_s: Figure[];
}

export interface Overview {
  topology: "declared" | "discovered";
  host_count: number;
  switch_count: number;
  port_count: number;
  queue_count: number;
  delivered_bytes_per_s: Figure;
  pods: ({ name: string; switches: string[] } & Columns)[];
}

export interface SwitchPorts {
  name: string;
  role: string;
  pod: string;
  ports: {
    port: string;
    peer: string | null;
    peer_port: string | null;
    up: boolean;
    capacity_bytes_per_s: Figure;
    queues: Queue[];
    runs: Watermark | null;
  }[];
}

// One switch of a pod: of each column its value.
export type Seen = { name: string; pod: string } & { [Name in keyof Columns]: Columns[Name][number] };
export interface Pod {
  name: string;
  switches: Seen[];
}

// Beyond these a port is too small to be seen, and all queues too many to be sent every few seconds.
const MOST_SWITCHES = 64;
const MOST_PORTS = 2_048;

export const large = ({ switch_count: switches, port_count: ports }: Overview): boolean => switches > MOST_SWITCHES || ports > MOST_PORTS;

const HIGHEST: Record<string, number> = { core: 0, spine: 1, leaf: 2 };
const height = (role: string): number => HIGHEST[role] ?? 3;

// What lies above all pods first, then by name; in a pod the highest switches first.
export function podsOf({ pods }: Overview): Pod[] {
  return pods
    .map(({ name: pod, switches, ...columns }) => ({
      name: pod,
      switches: switches
        .map((name, place) => {
          const own = Object.entries(columns as Columns).map(([column, values]) => [column, (values as unknown[])[place]]);
          return { name, pod, ...Object.fromEntries(own) } as Seen;
        })
        .sort((one, other) => height(one.role) - height(other.role) || natural(one.name, other.name)),
    }))
    .sort((one, other) => level(one) - level(other) || natural(one.name, other.name));
}

const level = ({ name }: Pod): number => height(name);

export function zoneOf({ depth_p99_bytes: depth, kmin_bytes: kmin, kmax_bytes: kmax }: Seen): Zone | null {
  if (depth === null || kmin === null || kmax === null) return null;
  return depth <= kmin ? 0 : depth <= kmax ? 1 : 2;
}

// How full its gauge is, from 0 to 1; without a watermark against the deepest queue of all.
export function fullness({ depth_p99_bytes: depth, kmin_bytes: kmin, kmax_bytes: kmax }: Seen, deepest: number): number {
  if (depth === null) return 0;
  return kmin === null || kmax === null ? depth / Math.max(1, deepest) : standing(depth, { kmin_bytes: kmin, kmax_bytes: kmax, pmax: 1 });
}

// The one with the most of a figure; undefined where none has it.
export const most = (switches: readonly Seen[], figure: "depth_p99_bytes" | "load" | "pause_share"): Seen | undefined =>
  switches.reduce<Seen | undefined>((found, one) => ((one[figure] ?? -1) > (found?.[figure] ?? -1) ? one : found), undefined);

export const sum = (switches: readonly Seen[], column: "ports" | "hosts" | "queues" | "over_kmin" | "over_kmax"): number =>
  switches.reduce((total, one) => total + one[column], 0);

// One switch as the map draws it.
export function oneSwitch({ name, ports }: SwitchPorts): Fabric {
  const drawn = ports.map(({ port, peer, peer_port: toPort, up, capacity_bytes_per_s: capacity, queues, runs }): Port => {
    const sent = queues.map(({ throughput_bytes_per_s: rate }) => rate).filter((rate) => rate !== null);
    const throughput = sent.length ? sent.reduce((total, rate) => total + rate, 0) : null;
    const load = throughput !== null && capacity ? throughput / capacity : null;
    return { switch: name, port, to: peer, toPort, up, load, throughput, capacity, queue: queues[0] ?? null, mark: runs };
  });
  drawn.sort((one, other) => Number(other.up) - Number(one.up) || natural(one.to ?? one.port, other.to ?? other.port));
  return { switches: [{ name, tier: 1, ports: drawn }], hosts: [], ports: new Map(drawn.map((port) => [key(name, port.port), port])) };
}
