// What is worked out of gains predicted and measured before they are drawn.
import { gain, percent, several } from "../../format.ts";
import type { Figure, GainSeen } from "../../service/documents.ts";

const LOSS = -0.02; // a measured gain below it did harm

// Measured less predicted, with the error of both.
export function apart({ predicted, predicted_error, measured, measured_error }: GainSeen): { value: Figure; error: Figure } {
  if (predicted === null || measured === null) return { value: null, error: null };
  return { value: measured - predicted, error: Math.hypot(predicted_error ?? 0, measured_error ?? 0) || null };
}

// Ends of an axis that holds 0 and every value with its error.
export function extent(values: readonly (readonly [value: Figure, error: Figure])[]): { low: number; high: number } {
  const ends = values.flatMap(([value, error]) => (value === null ? [] : [value - (error ?? 0), value + (error ?? 0)]));
  const [least, most] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const room = Math.max(0.01, 0.08 * (most - least));
  return { low: least - room, high: most + room };
}

// The policies of the newest first, each once.
export const policiesOf = (all: readonly GainSeen[]): string[] => [...new Set(all.map(({ policy }) => policy))];

const middle = (values: readonly number[]): number => [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;

export function gainsSaid(known: readonly GainSeen[], policy: string): string {
  const rollouts = `${several(known.length, "rollout")} for the ${policy} policy`;
  const seen = known.filter(({ measured }) => measured !== null);
  if (seen.length === 0) return `${rollouts}; none has been measured: that takes a whole window after the last switch is set.`;
  const off = seen.map((one) => Math.abs(apart(one).value ?? 0));
  const worse = seen.filter(({ measured }) => (measured ?? 0) < LOSS).length;
  return (
    `${rollouts}; ${seen.length} ${seen.length === 1 ? "was" : "were"} measured. At the median ${gain(middle(seen.map((one) => one.predicted ?? 0)))} was predicted and ` +
    `${gain(middle(seen.map((one) => one.measured ?? 0)))} measured, ${gain(middle(off))} apart; ` +
    `${worse === 0 ? "none" : worse} made things worse by more than ${percent(-LOSS)}.`
  );
}
