// What candidates can be drawn by. Those dropped early ran a shorter window than the leaders; only the raw terms of the
// score compare across all of them, other figures only among those that ran all of it.
import { bytes, gain, gbps, ratio, SPACE, sameWatermark, score, signed } from "../../format.ts";
import type { Candidate, Figure, Prediction, Recommendation } from "../../service/documents.ts";
import { type Shares, persistentShare, shares } from "./frontier.ts";

export interface CandidateAxis {
  key: string;
  name: string;
  of: (one: Candidate) => Figure;
  show: (value: number) => string;
  log?: boolean; // it may be
  share?: boolean; // of now, one of the gain's parts: always logarithmic, so that lines of equal gain are straight
  everyone?: boolean; // compares also with those that were dropped early
}

const LOG_QUEUE_OFFSET_BYTES = 1000;
const LEAST_BYTES = 100;
const raw = (one: Candidate, name: string): Figure => one.raw[name] ?? null;

export const incumbentOf = (round: Recommendation): Candidate | undefined =>
  round.candidates.find((one) => sameWatermark(one, round.incumbent));
export const winnerOf = (round: Recommendation): Candidate | undefined =>
  round.candidates.find((one) => sameWatermark(one, round.recommendation));

// Whether what ran when it was made is still said to run.
export const standing = ({ status }: Recommendation): boolean => status === "pending" || status === "kept";

// How much of the window the leaders ran.
export const wholeWindow = (round: Recommendation): number =>
  round.candidates.reduce((most, one) => Math.max(most, one.window_s), 0);
export const ranWhole = (one: Candidate, whole: number): boolean => one.window_s >= 0.999 * whole;

// Shares of now by a round that decided by the gain; null for older ones.
export function sharesIn(round: Recommendation): ((one: Prediction) => Shares) | null {
  const { policy, incumbent, score_is: by } = round;
  if (by !== "gain" || !policy) return null;
  const persistent = persistentShare(round);
  return (one) => shares(one, incumbent, policy, persistent);
}

export const ofNow = (value: number): string => `${Math.round(100 * value)}${SPACE}%`;

function shareAxis(round: Recommendation, part: keyof Shares, name: string): CandidateAxis[] {
  const found = sharesIn(round);
  if (!found) return [];
  const everyone = round.policy?.[part] !== 0; // else it is from figures, which compare over the whole window only
  return [{ key: part, name, of: (one) => found(one)[part], show: ofNow, log: true, share: true, everyone }];
}

export function acrossAxes(round: Recommendation): CandidateAxis[] {
  const logged = round.queue_is === "log_queue";
  const mean: CandidateAxis = logged
    ? {
        key: "mean",
        name: "mean bottleneck queue",
        of: (one) => {
          const term = raw(one, "queue");
          return term === null ? null : Math.max(LEAST_BYTES, Math.exp(term) - LOG_QUEUE_OFFSET_BYTES);
        },
        show: bytes,
        log: true,
        everyone: true,
      }
    : { key: "mean", name: "mean bottleneck queue", of: (one) => one.queue_mean_bytes, show: bytes, log: true };
  const rest: CandidateAxis[] = [
    { key: "p99", name: "99th percentile queue", of: (one) => one.queue_p99_bytes, show: bytes, log: true },
    { key: "mice", name: "mice, 99 % slowdown", of: (one) => one.slowdown.mice.p99, show: ratio, log: true },
  ];
  return [...shareAxis(round, "delay", "small-message delay, share of now"), mean, ...rest].filter((axis) => round.candidates.some((one) => axis.of(one) !== null));
}

export function upAxes(round: Recommendation): CandidateAxis[] {
  const now = incumbentOf(round);
  const before = now ? raw(now, "throughput") : null;
  const beside: CandidateAxis = {
    key: "throughput",
    name: "throughput term (elephant speed and goodput), beside what runs",
    of: (one) => {
      const term = raw(one, "throughput");
      return term === null || !before ? null : term / before - 1;
    },
    show: signed,
    everyone: true,
  };
  const terms: Record<string, CandidateAxis> = {
    goodput_bytes_per_s: {
      ...beside,
      name: "goodput",
      of: (one) => {
        const term = raw(one, "throughput");
        return term === null ? null : (term * 8) / 1e9;
      },
      show: gbps,
    },
    inverse_elephant_slowdown: {
      ...beside,
      name: "elephant speed (1 ÷ mean slowdown)",
      of: (one) => raw(one, "throughput"),
      show: (value) => value.toPrecision(3),
    },
  };
  const all: CandidateAxis[] = [
    ...shareAxis(round, "bulk", "bulk speed, share of now"),
    terms[round.throughput_is] ?? beside,
    { key: "goodput", name: "goodput", of: (one) => one.goodput_gbps, show: gbps },
    { key: "score", name: round.score_is === "gain" ? "gain" : "score", of: (one) => one.score, show: round.score_is === "gain" ? gain : score, everyone: true },
  ];
  return all
    .filter((axis, place) => all.findIndex(({ name }) => name === axis.name) === place)
    .filter((axis) => round.candidates.some((one) => axis.of(one) !== null));
}
