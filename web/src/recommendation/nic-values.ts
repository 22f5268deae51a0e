// The DCQCN values that NICs get with a joint change, and those of classes of hosts that get others.
import type { CoTuning } from "../service/documents.ts";

// Behind the number, as nics/parameters.py has them; what is not here has none.
const UNITS: Record<string, string> = {
  rpg_time_reset: " µs", rpg_byte_reset: " bytes", rpg_threshold: " steps", rpg_ai_rate: " Mbit/s", rpg_hai_rate: " Mbit/s", rpg_min_rate: " Mbit/s",
  dce_tcp_g: "/1024", dce_tcp_rtt: " µs", rate_reduce_monitor_period: " µs", initial_alpha_value: "/1024", min_time_between_cnps: " µs",
};

const spelled = (values: Record<string, number>): string =>
  Object.entries(values).map(([name, value]) => `${name} ${value}${UNITS[name] ?? ""}`).join(", ");

const own = ({ connectx_by_class: by }: CoTuning): [string, Record<string, number>][] => Object.entries(by ?? {});

export const setsNics = (of: CoTuning): boolean => [of.connectx, ...own(of).map(([, values]) => values)].some((values) => Object.keys(values).length > 0);

// Such as "rpg_ai_rate 40 Mbit/s; of storage rpg_ai_rate 5 Mbit/s".
export const nicValues = (of: CoTuning): string =>
  [spelled(of.connectx), ...own(of).map(([name, values]) => `of ${name} ${spelled(values) || "nothing"}`)].filter((text) => text !== "").join("; ");
