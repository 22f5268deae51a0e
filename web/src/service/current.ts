// The recommendation that stands, asked for only once there is one: a call known to fail would be an error in the
// browser's log.
import type { Recommendation, Recommendations } from "./documents.ts";
import { type Live, useLive } from "./live.ts";
import * as looks from "./looks.ts";

export function useCurrent(): Live<Recommendation> {
  const rounds = useLive<Pick<Recommendations, "total">>(looks.anyRecommendation);
  return useLive<Recommendation>(rounds.value && rounds.value.total > 0 ? looks.currentRecommendation : null);
}
