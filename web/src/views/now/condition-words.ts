// The condition of the fabric in words: its verdict, its figures, and from which values on each is watched or bad.
import { portion, ratio, SPACE } from "../../format.ts";
import type { ConditionFigure, ConditionLevel, Figure } from "../../service/documents.ts";
import type { Tone } from "../../parts/status.tsx";

export const VERDICTS: Record<ConditionLevel | "unknown", { answer: string; tone: Tone }> = {
  well: { answer: "Yes, it is well", tone: "good" },
  watch: { answer: "Watch it", tone: "warning" },
  bad: { answer: "No, it is not well", tone: "critical" },
  unknown: { answer: "Not known", tone: "plain" },
};

// Without the verdict that it begins with, which stands before it.
export function reasons(sentence: string): string {
  const text = sentence.replace(/^[\w ]+: /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

interface Named {
  name: string;
  of: string;
  show: (value: Figure) => string;
  limit: (value: number) => string; // exactly as it is set
}

const times = (value: number) => `${Number(value.toPrecision(4))}×`;
const share = (value: number) => `${Number((100 * value).toPrecision(4))}${SPACE}%`;

const FIGURES: Record<string, Named> = {
  packet_p99_slowdown: { name: "Small messages, p99", of: "of their time alone", show: ratio, limit: times },
  elephant_slowdown: { name: "Bulk messages, mean", of: "of their time alone", show: ratio, limit: times },
  paused_share: { name: "Time paused by PFC", of: "of port time", show: portion, limit: share },
  loss_share: { name: "Packets lost", of: "of packets", show: portion, limit: share },
  marked_share: { name: "Packets marked", of: "of packets", show: portion, limit: share },
};

export const namedFigure = ({ name }: Pick<ConditionFigure, "name">): Named =>
  FIGURES[name] ?? { name: name.replaceAll("_", " "), of: "", show: (value) => (value === null ? "–" : String(value)), limit: String };

// "watch from 20×, bad from 100×"
export function limits(one: ConditionFigure): string {
  const { limit } = namedFigure(one);
  const parts = [
    ...(one.watch_from === null ? [] : [`watch from ${limit(one.watch_from)}`]),
    ...(one.bad_from === null ? [] : [`bad from ${limit(one.bad_from)}`]),
  ];
  return parts.length ? parts.join(", ") : "no limit is set";
}

// The last hour, as one would tell it to somebody who does not see the line.
export function trendSaid(one: ConditionFigure): string {
  const { name, show } = namedFigure(one);
  const values = one.hour.map(([, value]) => value);
  if (values.length === 0) return `${name}: nothing was measured in the last hour.`;
  return `${name} in the last hour: at most ${show(Math.max(...values))}, median ${show(one.hour_median)}.`;
}
