// The marking probability by queue length, of what runs and of another watermark.
import { Chart } from "../parts/chart.tsx";
import { bytes, percent, spelled } from "../format.ts";
import type { Watermark } from "../service/documents.ts";
import { probability } from "./probability.ts";

const STEPS = 60;
const LEAST_BYTES = 100;

interface Props {
  now: Watermark;
  better: Watermark;
  was?: string; // name of what runs, or ran
  name?: string; // of the other
  low?: number; // of the axis, lest it jumps while somebody moves a slider
  high?: number;
}

export function MarkingCurve({ now, better, was = "now", name = "recommended", ...given }: Props) {
  const marks = [now, better];
  const low = given.low ?? Math.max(LEAST_BYTES, Math.min(...marks.map((one) => one.kmin_bytes || 1000)) / 3);
  const high = given.high ?? Math.max(...marks.map((one) => one.kmax_bytes)) * 2;
  const even = Array.from({ length: STEPS + 1 }, (_, step) => low * (high / low) ** (step / STEPS));
  const corners = marks.flatMap((one) => [one.kmin_bytes, one.kmax_bytes, one.kmax_bytes + 1]);
  const xs = [...new Set([...even, ...corners].filter((value) => value >= low && value <= high))].sort((a, b) => a - b);
  return (
    <Chart
      id="curve"
      label={`Marking probability by queue length. ${was}: ${spelled(now)}; ${name}: ${spelled(better)}.`}
      x={{ name: "queue", show: bytes, log: true, low, high }}
      xs={xs}
      y={{ name: "packets marked", show: percent, root: true, low: 0, high: 1 }}
      height={250}
      series={[
        { name: was, ink: "old", dashed: true, values: xs.map((queue) => probability(now, queue)) },
        { name, ink: "new", values: xs.map((queue) => probability(better, queue)) },
      ]}
    />
  );
}
