// Every candidate by mean queue and throughput: which were on the front, what runs, and the winner.
import { Chart } from "../../parts/chart.tsx";
import { bytes, ratio, sameWatermark, score, spelled } from "../../format.ts";
import type { Candidate, Recommendation } from "../../service/documents.ts";

// Candidates dropped early ran a shorter window than the leaders; only the raw terms of the score compare across them.
const LOG_QUEUE_OFFSET_BYTES = 1000;
const LEAST_BYTES = 100;

interface Term {
  name: string;
  of: (raw: number) => number;
  show: (value: number) => string;
}

const PLAIN: Term = { name: "throughput term", of: (raw) => raw, show: (value) => value.toPrecision(3) };
const THROUGHPUT: Record<string, Term> = {
  goodput_bytes_per_s: { name: "goodput", of: (raw) => (raw * 8) / 1e9, show: (value) => `${value.toPrecision(3)} Gbit/s` },
  slowdown_and_goodput: { ...PLAIN, name: "elephant speed and goodput, weighed by flows" },
  inverse_elephant_slowdown: { name: "elephant speed (1 ÷ mean slowdown)", of: (raw) => raw, show: (value) => value.toFixed(2) },
};

export function CandidateChart({ of: round }: { of: Recommendation }) {
  const term = THROUGHPUT[round.throughput_is] ?? PLAIN;
  const queue = (one: Candidate) =>
    Math.max(
      LEAST_BYTES,
      round.queue_is === "log_queue" ? Math.exp(one.raw["queue"] ?? 0) - LOG_QUEUE_OFFSET_BYTES : (one.queue_mean_bytes ?? 0),
    );
  const usable = round.candidates
    .filter((one) => one.score !== null && one.queue_mean_bytes !== null && one.raw["throughput"] != null)
    .sort((one, other) => queue(one) - queue(other));
  const ys = usable.map((one) => term.of(one.raw["throughput"] ?? 0));
  const front = new Set<number>();
  let best = -Infinity;
  ys.forEach((value, place) => {
    if (value > best) {
      best = value;
      front.add(place);
    }
  });
  const only = (wanted: (one: Candidate, place: number) => boolean) =>
    usable.map((one, place) => (wanted(one, place) ? (ys[place] ?? null) : null));
  const now = (one: Candidate) => sameWatermark(one, round.incumbent);
  const winner = (one: Candidate) => sameWatermark(one, round.recommendation);
  const tell = (place: number) => {
    const one = usable[place];
    if (!one) return "";
    const is = winner(one) ? "recommended: " : now(one) ? "runs now: " : "";
    return (
      `${is}${spelled(one)} · mean queue ${bytes(one.queue_mean_bytes)}, 99 % ${bytes(one.queue_p99_bytes)} · ` +
      `mice 99 % ${ratio(one.slowdown.mice.p99)}, elephants ${ratio(one.slowdown.elephant.mean)} · ` +
      `score ${score(one.score)}, ${one.source || one.origin}`
    );
  };
  return (
    <Chart
      id="scatter"
      label={`${usable.length} candidates by mean queue and ${term.name}; better is up and left.`}
      x={{ name: "mean bottleneck queue", show: bytes, log: true }}
      xs={usable.map(queue)}
      y={{ name: term.name, show: term.show }}
      height={340}
      tell={tell}
      series={[
        { name: "candidates", ink: "quiet", mark: "circle", values: only((one, place) => !front.has(place) && !now(one) && !winner(one)) },
        { name: "none is better in both", ink: "third", mark: "square", values: only((one, place) => front.has(place) && !now(one) && !winner(one)) },
        { name: "runs now", ink: "old", mark: "diamond", size: 13, values: only((one) => now(one) && !winner(one)) },
        { name: "recommended", ink: "new", mark: "circle", size: 14, values: only(winner) },
      ]}
    />
  );
}
