// A gain taken apart: what bulk traffic and small messages get, 1 being what they get now, and lines of equal gain.
import { sameWatermark } from "../../format.ts";
import type { Figure, GainParts, Policy, Prediction, Recommendation } from "../../service/documents.ts";
import type { Scale } from "../../parts/scale.ts";

export interface Shares {
  bulk: Figure; // speed, more is better
  delay: Figure; // less is better
}

const over = (after: Figure | undefined, before: Figure | undefined): number | null =>
  after && before && after > 0 && before > 0 ? Math.log(after / before) : null;
const weighed = (one: number | null, other: number | null, share: number): number | null =>
  one === null || other === null ? one ?? other : (1 - share) * one + share * other;
const raised = (log: Figure): Figure => (log === null ? null : Math.exp(log));

const parted = (part: Figure | undefined, weight: number): number | null => (part == null || weight === 0 ? null : part / weight);

// From the weighed parts; a part that the policy weighs with 0 from the figures. Null where neither tells.
export function shares(one: Prediction, now: Prediction, policy: Policy, persistent: number): Shares {
  const figures = sharesByFigures(one, now, persistent, policy);
  const { bulk, delay }: Partial<GainParts> = one.gain ?? {};
  const [speed, waiting] = [parted(bulk, policy.bulk), parted(delay, -policy.delay)];
  return { bulk: speed === null ? figures.bulk : raised(speed), delay: waiting === null ? figures.delay : raised(waiting) };
}

// `persistent` weighs the goodput of flows that never end beside the speed of elephants that complete, the policy the
// probe beside mice.
export function sharesByFigures(one: Prediction, now: Prediction, persistent: number, policy: Pick<Policy, "probe"> | null | undefined): Shares {
  const speed = over(now.slowdown.elephant.mean, one.slowdown.elephant.mean);
  const goodput = over(one.goodput_gbps, now.goodput_gbps);
  const bulk = weighed(speed, goodput, persistent);
  const delay = weighed(over(one.slowdown.mice.p99, now.slowdown.mice.p99), over(one.probe_slowdown?.p99, now.probe_slowdown?.p99), policy?.probe ?? 0.5);
  return { bulk: raised(bulk), delay: raised(delay) };
}

// The weight of never-ending flows, which documents do not tell: the one that best makes the parts from the figures,
// where both are of one engine and of the whole window.
export function persistentShare({ candidates, incumbent: now, policy, second_opinion: opinion }: Recommendation): number {
  const whole = Math.max(...candidates.map((one) => one.window_s));
  let [above, below] = [0, 0];
  for (const one of candidates) {
    if (one.window_s < 0.999 * whole || opinion?.candidates.some(({ first }) => sameWatermark(first, one))) continue;
    const bulk = policy ? parted(one.gain?.bulk, policy.bulk) : null;
    const [speed, goodput] = [over(now.slowdown.elephant.mean, one.slowdown.elephant.mean), over(one.goodput_gbps, now.goodput_gbps)];
    if (bulk === null || speed === null || goodput === null) continue;
    above += (bulk - speed) * (goodput - speed);
    below += (goodput - speed) ** 2;
  }
  return below > 0 ? Math.min(1, Math.max(0, above / below)) : 0;
}

export interface Line {
  from: [x: number, y: number];
  to: [x: number, y: number];
}

// Where α ln(bulk) − β ln(delay) is `gain`, as far as it lies within two logarithmic scales; null: nowhere.
export function isoGain(gain: number, { bulk: α, delay: β }: Pick<Policy, "bulk" | "delay">, across: Scale, up: Scale): Line | null {
  const [left, right, low, high] = [across.low, across.high, up.low, up.high].map(Math.log) as [number, number, number, number];
  if (α === 0) {
    const x = -gain / β;
    return x < left || x > right ? null : { from: [Math.exp(x), up.low], to: [Math.exp(x), up.high] };
  }
  const at = (x: number) => (gain + β * x) / α;
  const where = (y: number) => (α * y - gain) / β;
  const [start, end] = β === 0 ? [left, right] : [Math.max(left, where(low)), Math.min(right, where(high))];
  if (end <= start || at(start) > high + 1e-9 || at(end) < low - 1e-9) return null;
  return { from: [Math.exp(start), Math.exp(at(start))], to: [Math.exp(end), Math.exp(at(end))] };
}

// Which gains get a line: some `wanted` round steps over what the candidates span, 0 among them.
export function levels(gains: readonly number[], wanted = 12): number[] {
  const [least, most] = [Math.min(0, ...gains), Math.max(0, ...gains)];
  const step = [0.02, 0.05, 0.1, 0.2, 0.5, 1].find((one) => (most - least) / one <= wanted) ?? 2;
  const found: number[] = [];
  for (let number = Math.ceil(least / step); number * step <= most; number += 1) found.push(Number((number * step).toPrecision(6)));
  return found;
}
