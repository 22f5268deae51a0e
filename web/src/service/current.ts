// The recommendation that stands, asked for only once there is one: a call known to fail would be an error in the
// browser's log.
import type { Readiness, Recommendation } from "./documents.ts";
import { type Live, useLive } from "./live.ts";
import * as looks from "./looks.ts";

export function useCurrent(): Live<Recommendation> {
  const advice = useLive<Readiness>(looks.readiness).value?.advice ?? null;
  return useLive<Recommendation>(advice === null ? null : looks.currentRecommendation);
}
