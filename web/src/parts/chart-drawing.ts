// The drawing of a chart: uPlot with the page's colours and type, marks of several shapes, and which point is meant.
import uPlot from "uplot";
import { timeLabels, timeSplits } from "./time-axis.ts";
import type { Axis, ChartProps, Ink, Mark, Marked, Series } from "./chart.tsx";

interface Drawn {
  chart: uPlot;
  stop: () => void;
}

const FONT = '12px "Plex", system-ui, sans-serif';

export function draw(
  box: HTMLElement,
  props: ChartProps,
  height: number,
  look: (at: { index: number; series: number } | null) => void,
): Drawn {
  const style = getComputedStyle(box);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const ink = (name: Ink) => colour(`ink-${name}`);
  const axis = (one: Axis, side: 2 | 3): uPlot.Axis => ({
    side,
    stroke: colour("quiet"),
    font: FONT,
    size: side === 3 ? 62 : 30,
    gap: 6,
    space: side === 3 ? 34 : 68,
    grid: { stroke: colour("line"), width: 1, show: side === 3 },
    ticks: { stroke: colour("line"), width: 1, size: 5 },
    values: (_, splits) => (one.time ? timeLabels(splits) : splits.map((value) => (value == null ? "" : one.show(value)))),
    ...(one.time ? { splits: (made: uPlot, _index: number, low: number, high: number) => timeSplits(low, high, made.width / 90) } : {}),
    ...(one.root ? { splits: () => rootSplits(one) } : {}),
    ...(one.log ? { splits: (_: uPlot, __: number, low: number, high: number) => logSplits(low, high) } : {}),
  });
  const options: uPlot.Options = {
    width: width(box),
    height,
    legend: { show: false },
    padding: [12, props.x.time ? 34 : 18, 0, 0], // half of the last label, lest it is clipped
    scales: { x: { time: false, ...scale(props.x) }, y: scale(props.y) },
    axes: [axis(props.x, 2), axis(props.y, 3)],
    cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
    series: [{}, ...props.series.map((one) => series(one, ink(one.ink)))],
    hooks: {
      drawSeries: [(chart, index) => marks(chart, props.series[index - 1], index, ink, colour("card"))],
      drawAxes: [(chart) => moments(chart, props.marks ?? [], colour)],
      draw: [(chart) => highlight(chart, colour("text"))],
      setCursor: [
        (chart) => {
          const { left = -1, event } = chart.cursor;
          if (!event) return; // moved by a key: whoever moved it knows where to
          const found = left < 0 ? null : nearest(chart, left);
          meant.set(chart, found);
          look(found);
        },
      ],
    },
  };
  const data = [props.xs, ...props.series.map(({ values }) => values)] as unknown as uPlot.AlignedData;
  const chart = new uPlot(options, data, box);
  const watch = new ResizeObserver(() => chart.setSize({ width: width(box), height }));
  watch.observe(box);
  return {
    chart,
    stop: () => {
      watch.disconnect();
      chart.destroy();
    },
  };
}

const width = (box: HTMLElement) => Math.max(240, Math.floor(box.clientWidth));

function scale({ log, root, low, high }: Axis): uPlot.Scale {
  const range: uPlot.Range.Function = (_, least, most) => {
    const [from, to] = [low ?? least, high ?? most];
    if (log) return [from / 1.15, to * 1.15];
    const room = (to - from || Math.abs(to) || 1) * 0.06;
    return [low ?? from - room, high ?? to + room];
  };
  if (log) return { distr: 3, log: 10, range };
  return root ? { distr: 100, fwd: Math.sqrt, bwd: (value) => value * value, range } : { range };
}

const ROOT_SPLITS = [0, 0.01, 0.1, 0.25, 0.5, 1];
const rootSplits = ({ low = 0, high = 1 }: Axis) =>
  ROOT_SPLITS.map((part) => low + part * (high - low));

// Round numbers: of each decade 1, 2 and 5, or fewer where there are many decades.
export function logSplits(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const steps = decades > 3.5 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
  const first = Math.floor(Math.log10(low));
  const powers = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, place) => 10 ** (first + place));
  return powers.flatMap((power) => steps.map((step) => step * power)).filter((value) => value >= low && value <= high);
}

function series({ mark, line, dashed }: Series, stroke: string): uPlot.Series {
  const base: uPlot.Series = { stroke, width: 2.25, points: { show: false }, spanGaps: false };
  if (dashed) base.dash = [6, 4];
  if (mark && !line) base.paths = () => null;
  return base;
}

const OUTLINES: Record<Mark, (pen: CanvasRenderingContext2D, x: number, y: number, r: number) => void> = {
  circle: (pen, x, y, r) => pen.arc(x, y, r, 0, 2 * Math.PI),
  square: (pen, x, y, r) => pen.rect(x - r, y - r, 2 * r, 2 * r),
  diamond: (pen, x, y, r) => polygon(pen, [[x, y - 1.3 * r], [x + 1.3 * r, y], [x, y + 1.3 * r], [x - 1.3 * r, y]]),
};

function polygon(pen: CanvasRenderingContext2D, corners: [number, number][]): void {
  corners.forEach(([x, y], place) => (place === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y)));
  pen.closePath();
}

function marks(chart: uPlot, one: Series | undefined, index: number, ink: (name: Ink) => string, ground: string): void {
  if (!one?.mark) return;
  const pen = chart.ctx;
  const r = (one.size ?? 7) / 2 * devicePixelRatio;
  pen.save();
  pen.fillStyle = pen.strokeStyle = ink(one.ink);
  pen.globalAlpha = one.ink === "quiet" ? 0.65 : 1;
  const xs = chart.data[0];
  (chart.data[index] ?? []).forEach((value, place) => {
    if (value == null) return;
    const error = one.errors?.[place];
    if (error) {
      const x = chart.valToPos(xs[place] ?? 0, "x", true);
      pen.lineWidth = 1.5 * devicePixelRatio;
      pen.beginPath();
      pen.moveTo(x, chart.valToPos(value - error, "y", true));
      pen.lineTo(x, chart.valToPos(value + error, "y", true));
      pen.stroke();
    }
    pen.beginPath();
    OUTLINES[one.mark ?? "circle"](pen, chart.valToPos(xs[place] ?? 0, "x", true), chart.valToPos(value, "y", true), r);
    if ((one.size ?? 7) > 8) { // an edge in the ground's colour parts it from what lies beneath
      pen.save();
      pen.strokeStyle = ground;
      pen.lineWidth = 3 * devicePixelRatio;
      pen.stroke();
      pen.restore();
    }
    pen.fill();
  });
  pen.restore();
}

// Each a line from top to bottom with a flag at its top.
function moments(chart: uPlot, all: readonly Marked[], colour: (name: string) => string): void {
  const pen = chart.ctx;
  const { left, top, width: wide, height } = chart.bbox;
  const r = 4 * devicePixelRatio;
  pen.save();
  pen.lineWidth = 1.5 * devicePixelRatio;
  for (const { at, back } of all) {
    const x = chart.valToPos(at, "x", true);
    if (!(x >= left && x <= left + wide)) continue;
    pen.strokeStyle = pen.fillStyle = colour(back ? "back" : "ink-fourth");
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, top + height);
    pen.stroke();
    pen.beginPath();
    polygon(pen, [[x - r, top], [x + r, top], [x, top + 1.4 * r]]);
    pen.fill();
  }
  pen.restore();
}

type Point = { index: number; series: number };
const meant = new WeakMap<uPlot, Point | null>();

// A ring around the point that is told of, in charts of points.
function highlight(chart: uPlot, stroke: string): void {
  const found = meant.get(chart);
  const value = found && chart.data[found.series + 1]?.[found.index];
  if (!found || value == null) return;
  const pen = chart.ctx;
  pen.save();
  pen.strokeStyle = stroke;
  pen.lineWidth = 1.5 * devicePixelRatio;
  pen.beginPath();
  const [x, y] = [chart.valToPos(chart.data[0][found.index] ?? 0, "x", true), chart.valToPos(value, "y", true)];
  pen.arc(x, y, 9 * devicePixelRatio, 0, 2 * Math.PI);
  pen.stroke();
  pen.restore();
}

export function point(chart: uPlot, found: Point | null): void {
  meant.set(chart, found);
  chart.redraw(false);
}

// The values nearest to that x.
function nearest(chart: uPlot, left: number): Point | null {
  const xs = chart.data[0];
  let best: Point | null = null;
  let least = Infinity;
  for (let series = 0; series + 1 < chart.data.length; series += 1) {
    (chart.data[series + 1] ?? []).forEach((value, index) => {
      if (value == null) return;
      const distance = Math.abs(chart.valToPos(xs[index] ?? 0, "x") - left);
      if (distance < least) {
        least = distance;
        best = { index, series };
      }
    });
  }
  return best;
}
