// Did the newest rollout help? In a few words, by the gain that was measured.
import { gain } from "../../format.ts";
import type { GainSeen, ListedRollout } from "../../service/documents.ts";
import { dry, hashed, said, turnedBack } from "../act/rollout-words.ts";
import type { Said } from "./advice-words.ts";

const SURE = 2; // errors from which on a measured gain is told from none

export function judged({ measured, measured_error: error }: Pick<GainSeen, "measured" | "measured_error">): Said | null {
  if (measured === null) return null;
  const size = gain(Math.abs(measured), error);
  if (measured === 0 || Math.abs(measured) < SURE * (error ?? 0)) return { answer: `Too small to tell: ${gain(measured, error)}`, tone: "plain" };
  return measured > 0 ? { answer: `Yes: ${size} better`, tone: "good" } : { answer: `No: ${size} worse`, tone: "critical" };
}

export function helped(rollout: ListedRollout, seen: GainSeen | null | undefined): Said & { sentence: string } {
  if (dry(rollout) && (rollout.ended || turnedBack(rollout))) return { answer: "It was a dry run", tone: "plain", sentence: "Nothing was written, so nothing could change." };
  if (turnedBack(rollout)) return { answer: "It was rolled back", tone: "back", sentence: rollout.why ? `Reason: ${rollout.why}` : said(rollout) };
  if (!rollout.ended) return { answer: "A rollout is under way", tone: "busy", sentence: said(rollout) };
  if (hashed(rollout)) return { answer: "Another ECMP hash", tone: "plain", sentence: `${said(rollout)} What another hash brings is not predicted for one switch, and not measured.` };
  const found = seen ? judged(seen) : null;
  if (found) return { ...found, sentence: seen?.why ?? said(rollout) };
  return { answer: "Not measured yet", tone: "plain", sentence: "That takes a whole window of traffic after the last switch was set." };
}
