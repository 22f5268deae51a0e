// The terms of the score, what each adds or takes, and what made the difference in words.
import { score } from "../../format.ts";
import type { Candidate, Recommendation } from "../../service/documents.ts";
import { standing } from "./axes.ts";

export const TERMS: Record<string, string> = {
  throughput: "Throughput",
  queue: "Queue",
  loss: "Loss and pause",
  completion: "Completion",
  mice: "Mice",
};
const GOT: Record<string, [more: string, less: string]> = {
  throughput: ["more throughput", "less throughput"],
  queue: ["a longer queue", "a shorter queue"],
  mice_p99_slowdown: ["slower mice", "faster mice"],
  loss: ["more loss and pause", "less loss and pause"],
  completion: ["slower flows", "faster flows"],
  mice: ["slower mice", "faster mice"],
};
const LEAST = 0.005;

export interface TermRow {
  name: string;
  weight: number | null;
  now: number | null; // the term, 0 to 1 over the candidates
  better: number | null;
  counts: number | null; // what its change adds to the score
}

export function termRows(round: Recommendation, now: Candidate, better: Candidate): TermRow[] {
  return Object.keys(better.terms).map((name) => {
    const [before, after] = [now.terms[name] ?? null, better.terms[name] ?? null];
    const weight = round.weights?.[name] ?? null;
    const sign = name === "throughput" ? 1 : -1;
    const counts = weight === null || before === null || after === null ? null : sign * weight * (after - before);
    return { name, weight, now: before, better: after, counts };
  });
}

export function wonBy(round: Recommendation, rows: readonly TermRow[]): string | null {
  if (rows.some(({ counts }) => counts === null)) return null;
  const told = rows
    .filter(({ counts }) => Math.abs(counts ?? 0) >= LEAST)
    .sort((one, other) => (other.counts ?? 0) - (one.counts ?? 0))
    .map(({ name, counts, now, better }) => {
      const words = GOT[name === "queue" && round.queue_is === "mice_p99_slowdown" ? round.queue_is : name];
      const what = words?.[(better ?? 0) > (now ?? 0) ? 0 : 1] ?? name;
      return `${what} ${(counts ?? 0) > 0 ? "adds" : "takes"} ${score(Math.abs(counts ?? 0))}`;
    });
  const gain = rows.reduce((sum, { counts }) => sum + (counts ?? 0), 0);
  const other = standing(round) ? "what runs" : "what ran";
  if (told.length === 0) return `It scores as ${other}.`;
  return `It scores ${score(Math.abs(gain))} ${gain >= 0 ? "more" : "less"} than ${other}: ${told.join(", ")}.`;
}
