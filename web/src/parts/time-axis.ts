// Round times for an axis: whole minutes, hours or days by the reader's clock, and each as short as it can be said.
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  1, 5, 10, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY,
];

export function timeSplits(low: number, high: number, most: number): number[] {
  const step = STEPS.find((one) => (high - low) / one <= most) ?? 28 * DAY * Math.ceil((high - low) / most / (28 * DAY));
  const found: number[] = [];
  if (step > HOUR) {
    // By the calendar: days differ in length where clocks are changed.
    const from = new Date(low * 1000);
    const [year, month, day] = [from.getFullYear(), from.getMonth(), from.getDate()];
    const [passed, hours] = [Date.UTC(year, month, day) / 1000 / HOUR, step / HOUR];
    for (let hour = Math.ceil(passed / hours) * hours; ; hour += hours) {
      const at = new Date(year, month, day, hour - passed).getTime() / 1000;
      if (at > high) return found;
      if (at >= low) found.push(at);
    }
  }
  const behind = new Date(low * 1000).getTimezoneOffset() * MINUTE;
  for (let at = Math.ceil((low - behind) / step) * step + behind; at <= high; at += step) found.push(at);
  return found;
}

export function timeLabels(splits: readonly number[]): string[] {
  const step = (splits[1] ?? 0) - (splits[0] ?? 0);
  return splits.map((at) => {
    const time = new Date(at * 1000);
    const midnight = time.getHours() === 0 && time.getMinutes() === 0 && time.getSeconds() === 0;
    if (step >= DAY || (midnight && step >= HOUR)) return time.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const second: Intl.DateTimeFormatOptions = step > 0 && step < MINUTE ? { second: "2-digit" } : {};
    return time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...second });
  });
}
