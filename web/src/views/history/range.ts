// How far back one looks.
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

export interface Range {
  key: string;
  name: string;
  ms: number;
}

export const RANGES: readonly Range[] = [
  { key: "hour", name: "last hour", ms: HOUR_MS },
  { key: "six", name: "last 6 hours", ms: 6 * HOUR_MS },
  { key: "day", name: "last day", ms: 24 * HOUR_MS },
  { key: "week", name: "last week", ms: 7 * 24 * HOUR_MS },
  { key: "quarter", name: "last 90 days", ms: 90 * 24 * HOUR_MS },
];

// In whole minutes, so that asking again is asking for the same.
export const sinceOf = (range: Range, now: number): string =>
  new Date(Math.floor((now - range.ms) / MINUTE_MS) * MINUTE_MS).toISOString();

// How far ahead a forecast is drawn beside it: a quarter as far, a day at most.
export const aheadOf = (range: Range): number => Math.min(range.ms / 4_000, 86_400);

// From when on it is drawn: all of what was asked for, but not hours of nothing before the first.
export const drawnFrom = (since_s: number, first_s: number, until_s: number): number =>
  Math.max(since_s, first_s - Math.max(60, 0.05 * (until_s - first_s)));
