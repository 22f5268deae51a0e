// A scale of a drawing: where a value lies between two ends, straight or logarithmic, and which values are named.
export interface Scale {
  low: number;
  high: number;
  log: boolean;
}

const ROOM = 0.06;

export function scaleOf(values: readonly number[], log: boolean): Scale {
  const usable = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (usable.length === 0) return { low: log ? 1 : 0, high: log ? 10 : 1, log };
  const [least, most] = [Math.min(...usable), Math.max(...usable)];
  if (log) {
    const room = Math.max((most / least) ** ROOM, 1.06);
    return { low: least / room, high: most * room, log };
  }
  const room = (most - least || Math.abs(most) || 1) * ROOM;
  return { low: least >= 0 && least - room < 0 ? 0 : least - room, high: most + room, log };
}

// From 0 at the low end to 1 at the high one.
export function share({ low, high, log }: Scale, value: number): number {
  if (log) return Math.log(Math.max(value, low) / low) / Math.log(high / low);
  return (value - low) / (high - low);
}

// Round values within it, some `wanted` of them.
export function ticks({ low, high, log }: Scale, wanted: number): number[] {
  if (log) {
    const decades = Math.log10(high / low);
    const firsts = decades > 0.7 * wanted ? [1] : decades > 0.35 * wanted ? [1, 3] : [1, 2, 5];
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const first of firsts) {
        const value = first * 10 ** power;
        if (value >= low && value <= high) found.push(value);
      }
    }
    if (found.length >= 2) return found;
  }
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10) * power;
  const found: number[] = [];
  for (let number = Math.ceil(low / step); number * step <= high; number += 1) found.push(Number((number * step).toPrecision(12)));
  return found;
}

// Places of those that no other beats both across (less is better) and up (more is better), in order across.
export function front(points: readonly { x: number; y: number }[]): number[] {
  const order = points.map((_, place) => place).sort((one, other) => {
    const [a, b] = [points[one], points[other]];
    return a && b ? a.x - b.x || b.y - a.y : 0;
  });
  let best = -Infinity;
  return order.filter((place) => {
    const y = points[place]?.y ?? -Infinity;
    if (y <= best) return false;
    best = y;
    return true;
  });
}
