// What would be changed and what that is worth, in a few words.
import type { Tone } from "../../parts/status.tsx";
import type { CoTuning, Recommendation, ListedRollout } from "../../service/documents.ts";
import { dry, hashed } from "../act/rollout-words.ts";
import { gain, score } from "../../format.ts";

export interface Said {
  answer: string;
  tone: Tone;
}

// Whether switches were set or returned since its last round: it was then worked out for what runs no more.
export function outdated({ id, status, support, created }: Pick<Recommendation, "id" | "status" | "support" | "created">, newest: ListedRollout | undefined): boolean {
  if (!newest || dry(newest) || hashed(newest) || newest.recommendation === id || status !== "kept") return false;
  return Date.parse(support?.last ?? created) < Date.parse(newest.since);
}

// As it stands now: what was kept before switches were set or returned is not what runs.
export const asItStands = <T extends Pick<Recommendation, "id" | "status" | "support" | "created">>(of: T, newest: ListedRollout | undefined): T =>
  outdated(of, newest) ? { ...of, status: "outdated" } : of;

// What was approved together with the watermark, NICs or roles: its watermark and gain are not those of the watermark alone.
export const approvedWith = ({ status, sets, co_tuning: joint }: Pick<Recommendation, "status" | "sets" | "co_tuning">): CoTuning | null =>
  status === "approved" && (sets?.length ?? 1) > 1 ? (joint ?? null) : null;

type Advice = Pick<Recommendation, "status" | "changes" | "verdict" | "blocked" | "improvement" | "score_is" | "sets" | "co_tuning">;

export function advised(of: Advice, old = false): Said {
  if (old) return { answer: "Not known until the next round", tone: "plain" };
  const { score_gain: gained, score_error: error } = of.improvement;
  const worth = of.score_is === "gain" ? `${gain(gained, error)} better` : `score ${score(gained)} higher`;
  if (of.status === "expired") return { answer: "The advice has expired", tone: "warning" };
  if (of.status === "rejected") return { answer: "Nothing: it was rejected", tone: "plain" };
  if (of.status === "rolled_back") return { answer: "Nothing: it was rolled back", tone: "back" };
  const joint = approvedWith(of);
  if (joint) return { answer: `Approved ${of.sets?.includes("nic") ? "with NICs" : "by port role"}: predicted ${gain(joint.gain, joint.gain_error)} better`, tone: "good" };
  if (of.status === "approved") return { answer: `Approved: predicted ${worth}`, tone: "good" };
  if (of.verdict === "uncalibrated") return { answer: "Not known: the twin does not show what was measured", tone: "warning" };
  if (!of.changes && of.status === "pending") return { answer: "A change of NICs", tone: of.blocked?.length ? "warning" : "busy" };
  if (!of.changes || of.status === "kept") return { answer: "No change is advised", tone: "good" };
  return { answer: `A change: ${worth}`, tone: of.blocked?.length ? "warning" : "busy" };
}
