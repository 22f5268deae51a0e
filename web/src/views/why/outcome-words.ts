// What became of a recommendation, in a sentence.
import { percent } from "../../format.ts";
import type { Outcome } from "../../service/documents.ts";

const longer = (ratio: number) => `${percent(Math.abs(ratio))} ${ratio < 0 ? "shorter" : "longer"}`;

export function sentence({ predicted, queue_change: seen, since, after }: Outcome): string {
  const expected = predicted.queue_change;
  const wanted = expected === null ? "" : `The twin predicted a mean queue ${longer(expected)}`;
  if (since === null) return `${wanted || "It is predicted"}; no switch has been set yet.`;
  if (after === null || seen === null) return `${wanted || "It is set"}; nothing comparable has been measured since it was set.`;
  return `${wanted || "The twin predicted no figure"}; measured since, it is ${longer(seen)}.`;
}
