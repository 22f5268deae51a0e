// When rollouts began to set switches, and when they were taken back: marked in every chart of time.
import type { Marked } from "../../parts/chart.tsx";
import type { ListedRollout, Rollouts } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { dry } from "../act/rollout-words.ts";

export function marksOf(rollouts: readonly ListedRollout[]): Marked[] {
  return rollouts
    .filter((one) => !dry(one))
    .flatMap(({ phases }) =>
      phases.flatMap(({ at, phase }) => {
        const seconds = Date.parse(at) / 1000;
        if (phase === "canary") return [{ at: seconds, name: "rollout" }];
        return phase === "rolling_back" ? [{ at: seconds, name: "rolled back", back: true }] : [];
      }),
    )
    .sort((one, other) => one.at - other.at);
}

export const useMarks = (): Marked[] => marksOf(useLive<Rollouts>(looks.rollouts).value?.rollouts ?? []);
