// Where things lie on the map, in CSS pixels: with cables where all of it fits, else as front panels of switches only.
import { type Fabric, type Port, type Switch, key } from "./model.ts";

export interface Gauge {
  x: number; // its left edge
  y: number; // its top
  port: Port;
}

export interface Face {
  of: Switch;
  x: number;
  y: number;
  width: number;
  height: number;
  gauges: Gauge[];
}

export interface Cable {
  from: [x: number, y: number];
  to: [x: number, y: number];
  down: Port | null; // the port at `from`
  up: Port | null; // the port at `to`, null at a host
}

export interface HostMark {
  name: string;
  x: number;
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  faces: Face[];
  cables: Cable[];
  hosts: HostMark[];
  pitch: number; // from one gauge to the next
  gauge: { width: number; height: number };
  labels: boolean; // room for the hosts' names
  leftOff: number; // switches without room
}

const NAME = 18;
const PAD = 6;
const GAP = 14;
const CABLES = 92;
const HOST_DROP = 34;
const MOST_CABLES = 400;
const MOST_FACES = 400;

export function layout(fabric: Fabric, width: number): Layout {
  return withCables(fabric, width) ?? panels(fabric, width);
}

const rows = ({ ports }: Switch) => {
  const up = ports.filter((port) => port.up);
  return { up, down: ports.filter((port) => !port.up) };
};

function withCables(fabric: Fabric, width: number): Layout | null {
  if (fabric.hosts.length === 0 || fabric.ports.size > 2 * MOST_CABLES) return null;
  const highest = Math.max(...fabric.switches.map(({ tier }) => tier));
  const tiers = Array.from({ length: highest }, (_, place) => fabric.switches.filter(({ tier }) => tier === highest - place));
  const across = (one: Switch) => Math.max(rows(one).up.length, rows(one).down.length, 3);
  const room = Math.min(...tiers.map((tier) => (width - tier.length * (2 * PAD + GAP)) / tier.reduce((sum, one) => sum + across(one), 0)));
  const pitch = Math.min(34, Math.floor(room));
  if (pitch < 9) return null;
  const gauge = { width: Math.max(5, Math.min(14, pitch - 4)), height: 36 };
  const faces: Face[] = [];
  const ends = new Map<string, { x: number; top: number; bottom: number }>();
  let y = 0;
  tiers.forEach((tier, place) => {
    const deep = Math.max(...tier.map((one) => Number(rows(one).up.length > 0) + Number(rows(one).down.length > 0)), 1);
    const height = NAME + deep * (gauge.height + PAD) + PAD;
    const free = width - tier.reduce((sum, one) => sum + across(one) * pitch + 2 * PAD, 0);
    const space = free / tier.length;
    let x = space / 2;
    for (const one of tier) {
      const wide = across(one) * pitch + 2 * PAD;
      const { up, down } = rows(one);
      const face: Face = { of: one, x, y, width: wide, height, gauges: [] };
      for (const [line, top] of [[up, y + PAD], [down, y + height - PAD - gauge.height]] as const) {
        const start = x + wide / 2 - (line.length * pitch) / 2 + (pitch - gauge.width) / 2;
        line.forEach((port, at) => {
          const left = start + at * pitch;
          face.gauges.push({ x: left, y: top, port });
          ends.set(key(port.switch, port.port), { x: left + gauge.width / 2, top: y, bottom: y + height });
        });
      }
      faces.push(face);
      x += wide + space;
    }
    y += height + (place < tiers.length - 1 ? CABLES : 0);
  });
  const labels = pitch >= 16;
  const hosts: HostMark[] = [];
  const cables: Cable[] = [];
  for (const port of fabric.ports.values()) {
    const end = ends.get(key(port.switch, port.port));
    if (!end || port.to === null || port.up) continue;
    const other = port.toPort === null ? undefined : ends.get(key(port.to, port.toPort));
    if (other && other.top > end.bottom) {
      const up = fabric.ports.get(key(port.to, port.toPort ?? "")) ?? null;
      cables.push({ from: [end.x, end.bottom], to: [other.x, other.top], down: port, up });
    } else if (!fabric.switches.some(({ name }) => name === port.to)) {
      hosts.push({ name: port.to, x: end.x, y: end.bottom + HOST_DROP });
      cables.push({ from: [end.x, end.bottom], to: [end.x, end.bottom + HOST_DROP], down: port, up: null });
    }
  }
  const longest = labels ? Math.max(0, ...hosts.map(({ name }) => name.length)) * 6.6 + 10 : 6;
  return { width, height: y + HOST_DROP + 8 + longest, faces, cables, hosts, pitch, gauge, labels, leftOff: 0 };
}

function panels(fabric: Fabric, width: number): Layout {
  const least = 7;
  const worst = (one: Switch) => Math.max(...one.ports.map(({ queue }) => queue?.depth_p99_bytes ?? -1), -1);
  const all = fabric.switches;
  const kept = new Set(all.length <= MOST_FACES ? all : [...all].sort((one, other) => worst(other) - worst(one)).slice(0, MOST_FACES));
  const shown = all.filter((one) => kept.has(one));
  const split = (one: Switch) => Number(rows(one).up.length > 0 && rows(one).down.length > 0);
  const spots = (one: Switch) => one.ports.length + split(one);
  const most = Math.max(8, Math.floor((width - 2 * PAD) / least));
  const lines = (one: Switch) => Math.max(1, Math.ceil(spots(one) / most));
  const across = Math.min(most, Math.max(1, ...shown.map(spots)));
  const wide = Math.min(width, Math.max(84, across * least + 2 * PAD));
  const columns = Math.max(1, Math.floor((width + GAP) / (wide + GAP)));
  const each = (width - (columns - 1) * GAP) / columns;
  const pitch = Math.max(least, Math.min(14, Math.floor((10 * (each - 2 * PAD)) / across) / 10));
  const gauge = { width: Math.floor(pitch - 2), height: 24 };
  const faces: Face[] = [];
  let y = 0;
  for (let start = 0; start < shown.length; ) {
    const tier = shown[start]?.tier;
    const line: Switch[] = [];
    while (line.length < columns && start < shown.length && shown[start]?.tier === tier) line.push(shown[start++] as Switch);
    const deep = Math.max(...line.map(lines));
    const height = NAME + deep * (gauge.height + 4) + PAD;
    line.forEach((one, place) => {
      const x = place * (each + GAP);
      const ups = rows(one).up.length;
      const gauges = one.ports.map((port, at) => {
        const spot = at + (at >= ups ? split(one) : 0);
        return { x: x + PAD + (spot % most) * pitch, y: y + NAME + Math.floor(spot / most) * (gauge.height + 4), port };
      });
      faces.push({ of: one, x, y, width: each, height, gauges });
    });
    y += height + (start < shown.length && shown[start]?.tier !== tier ? 22 : 8);
  }
  return { width, height: y, faces, cables: [], hosts: [], pitch, gauge, labels: false, leftOff: all.length - shown.length };
}

// The two halves of a cable: a curve with upright ends, cut in the middle. Each shows what leaves its end.
export function halves({ from: [x1, y1], to: [x2, y2] }: Cable): [string, string] {
  const bend = (y2 - y1) / 2;
  const middle = [(x1 + x2) / 2, (y1 + y2) / 2] as const;
  const [left, right] = [(x1 * 3 + x2) / 4, (x1 + x2 * 3) / 4];
  const show = (value: number) => value.toFixed(1);
  const curve = (points: readonly (readonly [number, number])[]) =>
    points.map(([x, y], place) => `${place === 0 ? "M" : place === 1 ? "C" : " "}${show(x)} ${show(y)}`).join("");
  return [
    curve([[x1, y1], [x1, y1 + bend / 2], [left, middle[1] - bend / 4], middle]),
    curve([[x2, y2], [x2, y2 - bend / 2], [right, middle[1] + bend / 4], middle]),
  ];
}
