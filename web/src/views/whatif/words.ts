// What another watermark would do, beside what runs, in a sentence.
import { percent } from "../../format.ts";
import type { Figure, Prediction } from "../../service/documents.ts";

interface Told {
  of: (one: Prediction) => Figure;
  name: string;
  more: string;
  less: string;
}

const TOLD: readonly Told[] = [
  { of: (one) => one.queue_mean_bytes, name: "the mean queue", more: "longer", less: "shorter" },
  { of: (one) => one.queue_p99_bytes, name: "the 99th percentile queue", more: "longer", less: "shorter" },
  { of: (one) => one.slowdown.mice.p99, name: "the slowest mice", more: "slower", less: "faster" },
  { of: (one) => one.slowdown.elephant.mean, name: "elephants", more: "slower", less: "faster" },
  { of: (one) => one.goodput_gbps, name: "goodput", more: "higher", less: "lower" },
];
const SAME = 0.005;

const listed = (words: readonly string[]): string =>
  words.length < 2 ? (words[0] ?? "") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

export function beside(now: Prediction, other: Prediction): string {
  const changed: string[] = [];
  const same: string[] = [];
  for (const { of, name, more, less } of TOLD) {
    const [before, after] = [of(now), of(other)];
    if (before === null || after === null || before === 0) continue;
    const by = after / before - 1;
    if (Math.abs(by) < SAME) same.push(name);
    else changed.push(`${name} ${percent(Math.abs(by))} ${by > 0 ? more : less}`);
  }
  const lost = (other.loss_bytes ?? 0) > 0 && (now.loss_bytes ?? 0) === 0 ? " Packets would be lost, as none are now." : "";
  const paused = (other.pfc_pause_s ?? 0) > 0 && (now.pfc_pause_s ?? 0) === 0 ? " PFC would pause ports, as it does not now." : "";
  if (changed.length === 0) return `No figure differs from what runs by half a percent.${lost}${paused}`;
  const rest = same.length ? `; ${listed(same)} unchanged` : "";
  return `Beside what runs: ${listed(changed)}${rest}.${lost}${paused}`;
}
