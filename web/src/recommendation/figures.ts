// The figures that predictions are compared by, and how a change in each is told.
import { bytes, few, gain, gbps, percent, portion, ratio, score, seconds } from "../format.ts";
import type { Figure, Prediction, ScoreName } from "../service/documents.ts";

export interface Compared {
  name: string;
  pick: (one: Prediction) => Figure;
  show: (value: Figure, of: Prediction) => string;
  good: -1 | 0 | 1; // -1: less is better
  absolute?: (size: number) => string; // its change is a difference, not a share
}

export const COMPARED: readonly Compared[] = [
  { name: "Mice, 99 % slowdown", pick: (one) => one.slowdown.mice.p99, show: ratio, good: -1 },
  { name: "Small message, median slowdown", pick: (one) => one.probe_slowdown?.p50 ?? null, show: ratio, good: -1 },
  { name: "Small message, 99 % slowdown", pick: (one) => one.probe_slowdown?.p99 ?? null, show: ratio, good: -1 },
  { name: "Elephants, mean slowdown", pick: (one) => one.slowdown.elephant.mean, show: ratio, good: -1 },
  { name: "Goodput", pick: (one) => one.goodput_gbps, show: gbps, good: 1 },
  { name: "Mean queue", pick: (one) => one.queue_mean_bytes, show: bytes, good: -1 },
  { name: "99th percentile queue", pick: (one) => one.queue_p99_bytes, show: bytes, good: -1 },
  { name: "Packets marked", pick: (one) => one.marked_fraction, show: percent, good: 0 },
  { name: "Paused by PFC", pick: (one) => one.pfc_pause_s, show: (value, one) => withShare(seconds(value), value, one.paused_share), good: -1 },
  { name: "Lost", pick: (one) => one.loss_bytes, show: (value, one) => withShare(bytes(value), value, one.loss_share), good: -1 },
];

// "4.5 ms (0.1 %)": of all ports' time, or of all bytes sent.
const withShare = (text: string, value: Figure, share: Figure | undefined): string =>
  value && share ? `${text} (${portion(share)})` : text;

const GAIN: Compared = { name: "Gain over what runs", pick: (one) => one.score, show: (value, one) => gain(value, one.score_error), good: 1, absolute: gain };
const NORMALISED: Compared = { name: "Score, min–max of its round", pick: (one) => one.score, show: score, good: 1, absolute: score };

export const comparedBy = (by: ScoreName | undefined): readonly Compared[] =>
  by === "gain" ? [GAIN, ...COMPARED] : [...COMPARED, NORMALISED];

// What decided, of one prediction; scores of rounds before there were gains mean something within their round only.
export const worth = (one: Pick<Prediction, "score" | "score_error">, by: ScoreName | undefined): string =>
  by === "gain" ? gain(one.score, one.score_error) : score(one.score);

export interface Change {
  text: string;
  tone: "better" | "worse" | "";
}

const SAME = 0.005;
const MANY = 2; // from three times as much on, percent say little

export function change(before: Figure, after: Figure, { good, absolute }: Pick<Compared, "good" | "absolute">): Change {
  if (before === null || after === null) return { text: "–", tone: "" };
  const difference = after - before;
  const relative = before === 0 ? (difference === 0 ? 0 : Infinity) : difference / Math.abs(before);
  const small = Math.abs(absolute ? difference : relative) < SAME;
  if (small) return { text: "same", tone: "" };
  const sign = difference > 0 ? "+" : "−";
  const tone = good === 0 ? "" : difference * good > 0 ? "better" : "worse";
  if (!absolute && !Number.isFinite(relative)) return { text: "new", tone };
  if (!absolute && relative >= MANY) return { text: `${few(Number((relative + 1).toPrecision(2)))} times`, tone };
  return { text: `${sign}${absolute ? absolute(Math.abs(difference)) : percent(Math.abs(relative))}`, tone };
}
