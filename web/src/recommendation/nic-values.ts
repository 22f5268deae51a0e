// The DCQCN values that NICs get with a joint change, and those of classes of hosts that get others.
import type { CoTuning } from "../service/documents.ts";

const spelled = (values: Record<string, number>): string => Object.entries(values).map(([name, value]) => `${name} ${value}`).join(", ");

const own = ({ connectx_by_class: by }: CoTuning): [string, Record<string, number>][] => Object.entries(by ?? {});

export const setsNics = (of: CoTuning): boolean => [of.connectx, ...own(of).map(([, values]) => values)].some((values) => Object.keys(values).length > 0);

// Such as "rpg_ai_rate 40; of storage rpg_ai_rate 5".
export const nicValues = (of: CoTuning): string =>
  [spelled(of.connectx), ...own(of).map(([name, values]) => `of ${name} ${spelled(values) || "nothing"}`)].filter((text) => text !== "").join("; ");
