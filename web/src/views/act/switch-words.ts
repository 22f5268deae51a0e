// What switches run, one by one and all together.
import type { SwitchState } from "../../service/documents.ts";
import { count, several, watermark } from "../../format.ts";

type Running = Pick<SwitchState, "running" | "differs" | "capabilities">;

const MOST = 3;
const DIFFERS = "differs by queue";

// A dry run without a device asks nobody what runs.
export const assumed = ({ capabilities }: Pick<SwitchState, "capabilities">): boolean => !capabilities.reads;
export const runs = (one: Running): string =>
  one.running ? `${watermark(one.running)}${assumed(one) ? " (assumed, from the settings)" : ""}` : one.differs ? DIFFERS : "not known";

// "498 run 400 KB / 1.60 MB / 20 %, 2 not known": the most frequent first.
export function together(switches: readonly Running[]): string {
  const counted = new Map<string, number>();
  for (const one of switches) counted.set(runs(one), (counted.get(runs(one)) ?? 0) + 1);
  const found = [...counted].sort(([, one], [, other]) => other - one);
  const told = ([text, number]: [string, number]) => (/^\d/.test(text) ? `${count(number)} ${number === 1 ? "runs" : "run"} ${text}` : `${count(number)} ${text === DIFFERS && number > 1 ? "differ by queue" : text}`);
  const left = found.slice(MOST);
  const rest = left.reduce((sum, [, number]) => sum + number, 0);
  return `Kmin / Kmax / Pmax: ${[...found.slice(0, MOST).map(told), ...(rest ? [`${count(rest)} run ${several(left.length, "other setting")}`] : [])].join(", ")}.`;
}
