// Which draw found a candidate, and how many each draw gave.
import { several } from "../../format.ts";
import type { Candidate } from "../../service/documents.ts";

const DRAWS: Record<string, [one: string, many: string]> = {
  incumbent: ["what runs", "what runs"],
  base: ["the base watermark", "base watermark"],
  standing: ["an earlier round", "earlier rounds"],
  vendor: ["a vendor's default", "vendors' defaults"],
  drawn: ["a biased draw", "biased draws"],
  spread: ["a space-filling draw", "space-filling draws"],
  narrowed: ["a narrowed draw", "narrowed draws"],
};
const NEAR = "near ";

export function foundBy({ origin, source }: Pick<Candidate, "origin" | "source">): string {
  const draw = DRAWS[origin]?.[0] ?? origin;
  if (!source) return draw;
  if (!source.startsWith(NEAR)) return `${draw}: ${source}`;
  const leader = source.slice(NEAR.length);
  return `${draw} near ${DRAWS[leader]?.[0] ?? leader}`;
}

// Why it and none of the others that are as good; "" where there are none.
export function amongAlike(origin: string, alike: number, changes: boolean, other: string): string {
  if (changes && origin === "standing") return " It stands, as recommended before: no other is surely better than it by that much.";
  if (alike === 0) return "";
  return ` ${several(alike, "other")} could not be told apart from the best${changes ? `; of those sure to gain, this is the nearest to ${other}` : ""}.`;
}

export function draws(candidates: readonly Candidate[]): string {
  const found = new Map<string, number>();
  for (const { origin } of candidates) found.set(origin, (found.get(origin) ?? 0) + 1);
  return [...found]
    .filter(([origin]) => origin !== "incumbent")
    .sort(([, one], [, other]) => other - one)
    .map(([origin, number]) => several(number, DRAWS[origin]?.[0].replace(/^an? /, "") ?? origin, DRAWS[origin]?.[1]))
    .join(", ");
}
