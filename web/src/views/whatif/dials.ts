// The three numbers as sliders have them: logarithmic, rounded to what people say, and Kmin below Kmax.
import { bytes, pmax } from "../../format.ts";
import type { Watermark } from "../../service/documents.ts";

export type Name = keyof Watermark;

export interface Dial {
  name: Name;
  label: string;
  says: string;
  low: number;
  high: number;
  unit: string; // of the number beside the slider
  scale: number; // how much one of that unit is
  show: (value: number) => string;
}

export const STEPS = 400;
const DIGITS = 3;

// The search's own bounds (twin.watermark.WatermarkBounds); numbers typed may leave them, as far as the service takes them.
export const DIALS: readonly Dial[] = [
  { name: "kmin_bytes", label: "Kmin", says: "a shorter queue marks nothing", low: 2e3, high: 4e6, unit: "KB", scale: 1e3, show: bytes },
  { name: "kmax_bytes", label: "Kmax", says: "a longer queue marks everything", low: 4e3, high: 16e6, unit: "KB", scale: 1e3, show: bytes },
  { name: "pmax", label: "Pmax", says: "the share marked just below Kmax", low: 0.001, high: 1, unit: "%", scale: 0.01, show: pmax },
];

export const stepOf = ({ low, high }: Dial, value: number): number =>
  Math.round((STEPS * Math.log(Math.min(Math.max(value, low), high) / low)) / Math.log(high / low));

export function valueAt(dial: Dial, step: number): number {
  if (step <= 0) return dial.low;
  if (step >= STEPS) return dial.high;
  const value = Number((dial.low * (dial.high / dial.low) ** (step / STEPS)).toPrecision(DIGITS));
  return dial.name === "pmax" ? value : Math.round(value);
}

// The same with one number changed; the other threshold gives way. Null: no number that can be.
export function turned(mark: Watermark, name: Name, value: number): Watermark | null {
  if (!Number.isFinite(value)) return null;
  if (name === "pmax") return value > 0 && value <= 1 ? { ...mark, pmax: value } : null;
  const whole = Math.round(value);
  if (name === "kmin_bytes") {
    return whole < 0 ? null : { ...mark, kmin_bytes: whole, kmax_bytes: Math.max(mark.kmax_bytes, whole + 1) };
  }
  return whole < 1 ? null : { ...mark, kmax_bytes: whole, kmin_bytes: Math.min(mark.kmin_bytes, whole - 1) };
}
