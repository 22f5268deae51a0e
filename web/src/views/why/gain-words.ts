// A gain's parts: what each is, what it adds, and what made the difference in words.
import { gain, percent } from "../../format.ts";
import type { Figure, GainParts } from "../../service/documents.ts";
import { ofNow } from "./axes.ts";
import type { Shares } from "./frontier.ts";

export type Part = keyof GainParts;
export const PARTS: Record<Part, string> = { bulk: "Bulk speed", delay: "Small-message delay", harm: "Pauses and losses" };

const SAME = 0.0005;

const faster = (by: number) => `${percent(Math.abs(by))} ${by > 0 ? "faster" : "slower"}`;

function told(part: Part, value: number, shares: Shares): string {
  if (part === "bulk") return shares.bulk === null ? "bulk traffic" : `bulk traffic at ${ofNow(shares.bulk)} of its speed`;
  if (part === "delay") return shares.delay === null ? "small messages" : `small messages and mice ${faster(1 - shares.delay)} at p99`;
  return value > 0 ? "fewer pauses and losses" : "more pauses and losses";
}

// Such as "small messages and mice 55 % faster at p99 (+40 %), bulk traffic at 74 % of its speed (−15 %)".
export function tradedWords(parts: GainParts, shares: Shares): string {
  return (Object.keys(PARTS) as Part[])
    .map((part) => ({ part, value: parts[part] ?? 0 }))
    .filter(({ value }) => Math.abs(value) >= SAME)
    .sort((one, other) => other.value - one.value)
    .map(({ part, value }) => `${told(part, value, shares)} (${signedGain(value)})`)
    .join(", ");
}

export interface Piece {
  part: Part;
  from: number;
  to: number;
}

// The parts end to end from 0: those that are better to the right, those that are worse to the left.
export function pieces(parts: GainParts): Piece[] {
  let [right, left] = [0, 0];
  return (Object.keys(PARTS) as Part[]).flatMap((part) => {
    const value = parts[part] ?? 0;
    if (Math.abs(value) < SAME) return [];
    const from = value > 0 ? right : left;
    const to = from + value;
    if (value > 0) right = to;
    else left = to;
    return [{ part, from, to }];
  });
}

export const signedGain = (value: Figure): string => (value !== null && value > 0 ? `+${gain(value)}` : gain(value));
