// A round under way in words.
import type { Round } from "./round.ts";

// What a round does at each stage; "window 0.4" and "traffic 0.375" are shares of the traffic that candidates are run on.
const STAGES: Record<string, string> = {
  started: "reading the traffic",
  regime: "checking whether traffic has changed",
  window: "trying candidates",
  traffic: "trying candidates",
  narrowed: "refining the best",
  leaders: "comparing the best",
  "long moments": "comparing the best on long traffic",
  "second opinion": "asking the packet engine",
  trajectories: "drawing the queues",
};

// "trying candidates on 40 % of the traffic, 160 of 256"
export function stageSaid({ stage, done, total }: Round): string {
  const [, name, share] = /^(window|traffic) ([\d.]+)$/.exec(stage) ?? [null, stage, "1"];
  const text = STAGES[name ?? stage] ?? stage;
  const on = Number(share) < 1 ? ` on ${Math.round(100 * Number(share))} % of the traffic` : "";
  return `${text}${on}${total ? `, ${done ?? 0} of ${total}` : ""}`;
}

export const roundSaid = (of: Round): string => {
  const text = stageSaid(of);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
};
