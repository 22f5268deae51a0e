// What is worked out of the advice of days before it is drawn.
import type { AdviceDay } from "../../service/documents.ts";
import { gain, several } from "../../format.ts";

// The mean over all rounds, not over days: a day with one round says less. Its error is the mean of theirs.
export function overall(days: readonly AdviceDay[]): { rounds: number; advised: number; gain: number; error: number | null } {
  const rounds = days.reduce((sum, one) => sum + one.rounds, 0);
  const told = days.filter(({ gain_error }) => gain_error !== null);
  const advised = (some: readonly AdviceDay[]) => some.reduce((sum, one) => sum + one.advised, 0);
  const error = told.reduce((sum, one) => sum + one.advised * (one.gain_error ?? 0), 0) / advised(told);
  return {
    rounds,
    advised: advised(days),
    gain: days.reduce((sum, one) => sum + one.rounds * one.gain, 0) / rounds,
    error: Number.isFinite(error) ? error : null,
  };
}

export function adviceSaid(days: readonly AdviceDay[]): string {
  const all = overall(days);
  const rounds = `${several(all.rounds, "round")} on ${several(days.length, "day")}`;
  if (all.advised === 0) return `${rounds} advised no change: what ran was as good as anything tried.`;
  return `${rounds}, ${all.advised} of which advised a change. Followed at once each time, the traffic would have fared ${gain(all.gain, all.error)} better than under what ran, by the twin.`;
}
