// A port's past as a chart takes it: times in seconds, and a gap where nothing was seen for longer than a step.
import type { Figure, ForecastPath, PortHistory, QueueHistory } from "../../service/documents.ts";

type Column = "depth_bytes" | "depth_max_bytes" | "throughput_bytes_per_s" | "marked_packets_per_s" | "pause_share";
const COLUMNS: readonly Column[] = ["depth_bytes", "depth_max_bytes", "throughput_bytes_per_s", "marked_packets_per_s", "pause_share"];

export type Drawable = { xs: number[] } & Record<Column, Figure[]>;

export function drawable(port: PortHistory, step_s: number): Drawable {
  const found: Drawable = { xs: [], depth_bytes: [], depth_max_bytes: [], throughput_bytes_per_s: [], marked_packets_per_s: [], pause_share: [] };
  let before = NaN;
  port.at.forEach((at, place) => {
    const time = Date.parse(at) / 1000;
    if (time - before > 1.5 * step_s) {
      found.xs.push(before + step_s);
      for (const name of COLUMNS) found[name].push(null);
    }
    found.xs.push(time);
    for (const name of COLUMNS) found[name].push(port[name][place] ?? null);
    before = time;
  });
  return found;
}

export interface Continued {
  xs: number[];
  throughput: Figure[];
  forecast: Figure[];
  low: Figure[];
  high: Figure[];
}

// Throughput, and after its last step what is forecast, with the band that held 95 % of what came.
export function continued({ xs, throughput_bytes_per_s: sent }: Drawable, path: ForecastPath): Continued {
  const times = path.at.map((at) => Date.parse(at) / 1000);
  const begin = times.findIndex((time) => time > (xs.at(-1) ?? 0));
  const later = begin < 0 ? [] : times.slice(begin);
  const before: Figure[] = xs.map(() => null);
  const ahead = (values: Figure[]) => [...before, ...values.slice(begin < 0 ? values.length : begin)];
  return {
    xs: [...xs, ...later],
    throughput: [...sent, ...later.map(() => null)],
    forecast: ahead(path.throughput_bytes_per_s),
    low: ahead(path.low_bytes_per_s),
    high: ahead(path.high_bytes_per_s),
  };
}

export interface PortName {
  switch: string;
  port: string;
}

// Each port once, in the order of whoever names it first.
export function portsOf(...found: (QueueHistory | undefined)[]): PortName[] {
  const known = new Map<string, PortName>();
  for (const one of found.flatMap((document) => document?.queues ?? [])) {
    const name = `${one.switch} ${one.port}`;
    if (!known.has(name)) known.set(name, { switch: one.switch, port: one.port });
  }
  return [...known.values()];
}
