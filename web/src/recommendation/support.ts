// What stands behind a recommendation, in sentences: rounds, traffic, and how steady the answer was over the last hour.
import { count, seconds, several } from "../format.ts";
import type { Support } from "../service/documents.ts";

export function supportSaid({ rounds, moments, traffic_s, hour_rounds, hour_agreeing }: Support): string {
  const behind = `${several(rounds, "round")} ${rounds === 1 ? "gives" : "give"} this answer, judged on ${seconds(traffic_s)} of traffic from ${several(moments, "moment")}`;
  return `${behind}. ${steadiness(hour_rounds, hour_agreeing)}`;
}

function steadiness(all: number, agreeing: number): string {
  if (all <= 1) return "There is no other round of the last hour to compare it with.";
  if (agreeing === all) return `Steady: all ${count(all)} rounds of the last hour agree.`;
  return `${count(agreeing)} of ${count(all)} rounds of the last hour agree.`;
}
