// The figures that predictions are compared by, and how a change in each is told.
import { bytes, gbps, percent, ratio, score, seconds } from "../format.ts";
import type { Figure, Prediction } from "../service/documents.ts";

export interface Compared {
  name: string;
  pick: (one: Prediction) => Figure;
  show: (value: Figure) => string;
  good: -1 | 0 | 1; // -1: less is better
  absolute?: boolean; // its change is a difference, not a share
}

export const COMPARED: readonly Compared[] = [
  { name: "Mean queue", pick: (one) => one.queue_mean_bytes, show: bytes, good: -1 },
  { name: "99th percentile queue", pick: (one) => one.queue_p99_bytes, show: bytes, good: -1 },
  { name: "Mice, 99 % slowdown", pick: (one) => one.slowdown.mice.p99, show: ratio, good: -1 },
  { name: "Elephants, mean slowdown", pick: (one) => one.slowdown.elephant.mean, show: ratio, good: -1 },
  { name: "Goodput", pick: (one) => one.goodput_gbps, show: gbps, good: 1 },
  { name: "Packets marked", pick: (one) => one.marked_fraction, show: percent, good: 0 },
  { name: "Lost", pick: (one) => one.loss_bytes, show: bytes, good: -1 },
  { name: "Paused by PFC", pick: (one) => one.pfc_pause_s, show: seconds, good: -1 },
  { name: "Score", pick: (one) => one.score, show: score, good: 1, absolute: true },
];

export interface Change {
  text: string;
  tone: "better" | "worse" | "";
}

const SAME = 0.005;

export function change(before: Figure, after: Figure, { good, absolute = false }: Pick<Compared, "good" | "absolute">): Change {
  if (before === null || after === null) return { text: "–", tone: "" };
  const difference = after - before;
  const relative = before === 0 ? (difference === 0 ? 0 : Infinity) : difference / Math.abs(before);
  const small = Math.abs(absolute ? difference : relative) < SAME;
  if (small) return { text: "same", tone: "" };
  const sign = difference > 0 ? "+" : "−";
  const size = absolute ? score(Math.abs(difference)) : percent(Math.abs(relative));
  const tone = good === 0 ? "" : difference * good > 0 ? "better" : "worse";
  return { text: absolute || Number.isFinite(relative) ? `${sign}${size}` : "new", tone };
}
