// What became of a recommendation, in a sentence.
import { gain, percent } from "../../format.ts";
import { apart } from "../history/gain-series.ts";
import type { GainSeen, MeasuredFigures, Outcome } from "../../service/documents.ts";

const longer = (ratio: number) => `${percent(Math.abs(ratio))} ${ratio < 0 ? "shorter" : "longer"}`;

export function sentence({ predicted, queue_change: seen, since, before, after }: Outcome): string {
  const expected = predicted.queue_change;
  const wanted = expected === null ? "" : `The twin predicted a mean queue ${longer(expected)}`;
  if (since === null) return `${wanted || "It is predicted"}; no switch has been set yet.`;
  if (after === null || seen === null) return `${wanted || "It is set"}; nothing comparable has been measured since it was set.`;
  return `${wanted || "The twin predicted no figure"}; measured since, it is ${longer(seen)}.${otherTraffic(before, after)}`;
}

export function gainSentence(seen: GainSeen): string {
  const predicted = `The twin predicted a gain of ${gain(seen.predicted, seen.predicted_error)} for the ${seen.policy} policy`;
  if (seen.measured === null) return `${predicted}; none has been measured yet.`;
  const { value, error } = apart(seen);
  return `${predicted}; measured since, it is ${gain(seen.measured, seen.measured_error)}, ${gain(value, error)} from it.`;
}

const TELLING = 0.1;

// A queue compares under the same traffic only.
function otherTraffic(before: MeasuredFigures | null, after: MeasuredFigures): string {
  const [old, now] = [before?.throughput_bytes_per_s, after.throughput_bytes_per_s];
  if (!old || now == null) return "";
  const by = now / old - 1;
  if (Math.abs(by) < TELLING) return "";
  return ` But ${percent(Math.abs(by))} ${by > 0 ? "more" : "less"} traffic passed than before: part of the difference is its.`;
}
