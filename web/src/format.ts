// Figures as people read them: three digits, always with the unit, a dash where a figure is not known.
import type { Figure, Watermark } from "./service/documents.ts";

type Known = Figure | undefined;
const NONE = "–";
// A figure and its unit stay on one line.
export const SPACE = "\u00a0";

function scaled(value: number, units: readonly string[]): string {
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  const digits = size === 0 || size >= 99.95 || Number.isInteger(size) ? 0 : size >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)}${SPACE}${units[unit]}`;
}

export const bytes = (value: Known): string => (value == null ? NONE : scaled(value, ["B", "KB", "MB", "GB", "TB"]));
export const bits = (value: Known): string =>
  value == null ? NONE : scaled(value * 8, ["bit/s", "Kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
export const gbps = (value: Known): string => (value == null ? NONE : bits((value * 1e9) / 8));
export const count = (value: Known): string =>
  value == null ? NONE : Math.round(value).toLocaleString("en-GB").replaceAll(",", "\u202f");
export const ratio = (value: Known): string =>
  value == null ? NONE : `${value < 100 ? value.toPrecision(3) : count(value)}×`;
export const few = (value: Known): string =>
  value == null ? NONE : value >= 1000 ? count(value) : String(Number(value.toPrecision(3)));
export const perSecond = (value: Known): string => (value == null ? NONE : `${few(value)}/s`);
export const rate = (value: Known): string => (value == null ? NONE : scaled(value, ["/s", "K/s", "M/s", "G/s"]));
export const score = (value: Known): string => (value == null ? NONE : value.toFixed(3).replace("-", "−"));

// A gain, a logarithm, as percent with its standard error where that is known: "8.1 ± 1.9 %".
export function gain(value: Known, error?: Known): string {
  if (value == null) return NONE;
  const hundredths = (one: number) => (100 * one).toFixed(Math.abs(one) < 0.0995 ? 1 : 0).replace(/^-?0(\.0)?$/, "0").replace("-", "−");
  return `${hundredths(value)}${error ? `${SPACE}±${SPACE}${hundredths(error)}` : ""}${SPACE}%`;
}

export function percent(value: Known): string {
  if (value == null) return NONE;
  const hundred = value * 100;
  const size = Math.abs(hundred);
  const digits = size === 0 || size >= 9.95 ? 0 : size >= 0.995 ? 1 : 2;
  return `${hundred < 0 ? "−" : ""}${Number(size.toFixed(digits))}${SPACE}%`;
}

// As a switch is set to it, and as sentences of the service have it.
export const pmax = (value: Known): string => (value == null ? NONE : `${Number((100 * value).toPrecision(3))}${SPACE}%`);

export const signed = (value: number): string => (value > 0 ? `+${percent(value)}` : percent(value));

// Of something that should be 0: what is too little to be told is not told as none.
export const portion = (value: Known): string => (value && value < 5e-5 ? `under 0.01${SPACE}%` : percent(value));

const HOUR_S = 3_600;
const DAY_S = 24 * HOUR_S;

export function seconds(value: Known): string {
  if (value == null) return NONE;
  if (value === 0) return `0${SPACE}s`;
  if (value < 1e-3) return `${Number((value * 1e6).toPrecision(3))}${SPACE}µs`;
  if (value < 1) return `${Number((value * 1e3).toPrecision(3))}${SPACE}ms`;
  if (value >= 2 * DAY_S) return `${few(value / DAY_S)}${SPACE}days`;
  if (value >= 2 * HOUR_S) return `${few(value / HOUR_S)}${SPACE}h`;
  return `${value < 1000 ? Number(value.toPrecision(3)) : count(value)}${SPACE}s`;
}

// Hours, minutes and seconds to go: "0:04:57".
export function countdown(left: number): string {
  const whole = Math.max(Math.ceil(left), 0);
  return [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60].map((part, at) => String(part).padStart(at ? 2 : 1, "0")).join(":");
}

// Of today the time; of another day the date and the reader's zone as well, and the year where it is another.
export function when(text: string, today = new Date()): string {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return text;
  if (today.toDateString() === time.toDateString()) return time.toLocaleTimeString("en-GB");
  const year: Intl.DateTimeFormatOptions = today.getFullYear() === time.getFullYear() ? {} : { year: "numeric" };
  return time.toLocaleString("en-GB", { day: "numeric", month: "short", ...year, hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
}

// With everything, for where there is room, such as the tip of a chart.
export const moment = (seconds: number): string =>
  new Date(seconds * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });

export const watermark = (mark: Watermark): string =>
  `${bytes(mark.kmin_bytes)} / ${bytes(mark.kmax_bytes)} / ${pmax(mark.pmax)}`;
export const spelled = (mark: Watermark): string =>
  `Kmin ${bytes(mark.kmin_bytes)}, Kmax ${bytes(mark.kmax_bytes)}, Pmax ${pmax(mark.pmax)}`;
export const sameWatermark = (one: Watermark, other: Watermark): boolean =>
  one.kmin_bytes === other.kmin_bytes && one.kmax_bytes === other.kmax_bytes && one.pmax === other.pmax;

// "1 switch", "1 200 switches"; give the plural where it takes more than an s.
export const several = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`;
export const named = (names: readonly string[]): string =>
  names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");

// A sentence of the service, which may be a question, with its full stop.
export const closed = (sentence: string): string => (/[.?!…]$/.test(sentence) ? sentence : `${sentence}.`);

export const CLASSES = { elephant: "Elephants", potential_elephant: "Potential elephants", mouse: "Mice" } as const;
const DECISIONS: Record<string, string> = {
  pending: "waiting for you",
  kept: "keep what runs",
  outdated: "kept what ran",
  approved: "approved",
  rejected: "rejected",
  superseded: "superseded",
  expired: "expired",
  rolled_back: "rolled back",
};
// What a recommendation's status says, or the status itself where a newer service has another.
export const decision = (status: string): string => DECISIONS[status] ?? status;
