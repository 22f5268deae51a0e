// A chart: lines or points over one axis, drawn by uPlot in the page's own colours. Readable without seeing it: it has
// a description, arrow keys move along it and say the figures, and all of them are in a table below.
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { Figure } from "../service/documents.ts";
import { draw, point } from "./chart-drawing.ts";
import { Table } from "./table.tsx";

export interface Axis {
  name: string; // with what it is of, "mean bottleneck queue"; the unit comes from `show`
  show: (value: number) => string;
  log?: boolean;
  root?: boolean; // as its square root, so that what is near 0 is seen too
  time?: boolean; // values are seconds since 1970
  low?: number;
  high?: number;
}

export type Ink = "new" | "old" | "quiet" | "third" | "fourth" | "bad";
export type Mark = "circle" | "diamond" | "square";

export interface Series {
  name: string;
  values: readonly Figure[]; // one for each of x; null leaves a gap
  ink: Ink;
  dashed?: boolean;
  mark?: Mark; // points instead of a line, or with `line` beside it
  line?: boolean;
  size?: number; // of a mark, in CSS pixels
  errors?: readonly Figure[]; // drawn above and below each mark
}

export interface ChartProps {
  id?: string;
  label: string; // what it shows, as one would say it to somebody who does not see it
  x: Axis;
  xs: readonly number[]; // ascending
  y: Axis;
  series: readonly Series[];
  height?: number;
  // What is said of a point; without it x and every series' value there.
  tell?: (index: number, series: number) => string;
  table?: boolean; // false where the view has a table of its own
  marks?: readonly Marked[]; // moments to be seen in every chart of the same time, such as rollouts
}

export interface Marked {
  at: number; // on the axis x
  name: string; // "rollout", "rolled back"
  back?: boolean;
}

const HEIGHT = 280;

export function Chart(props: ChartProps) {
  const { id, label, x, xs, y, series, height = HEIGHT, table = true } = props;
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [meant, look] = useState<{ index: number; series: number } | null>(null);
  const at = meant && meant.index < xs.length ? meant : null; // fewer may be drawn since
  const looks = useTheme();

  const shape = JSON.stringify([xs, series, x, y, height, props.marks, looks]);
  useEffect(() => {
    if (!box.current || xs.length === 0) return;
    const made = draw(box.current, latest.current, height, look);
    chart.current = made.chart;
    return () => {
      made.stop();
      chart.current = null;
    };
  }, [shape]);

  const drawn = series.map((one, index) => ({ one, index })).filter(({ one }) => one.values.some((value) => value !== null));
  const step = (by: number) => {
    const wanted = Math.max(0, Math.min(xs.length - 1, (at?.index ?? (by > 0 ? -1 : xs.length)) + by));
    const has = drawn.find(({ one }) => one.values[wanted] !== null);
    const made = chart.current;
    const found = { index: wanted, series: has?.index ?? 0 };
    look(found);
    if (!made) return;
    const value = has?.one.values[wanted];
    const top = value == null ? 0 : made.valToPos(value, "y");
    made.setCursor({ left: made.valToPos(xs[wanted] ?? 0, "x"), top }, false);
    point(made, found);
  };
  const key = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -xs.length, End: xs.length }[event.key];
    if (by !== undefined) step(by);
    else if (event.key === "Escape") {
      chart.current?.setCursor({ left: -10, top: -10 }, false);
      look(null);
    } else return;
    event.preventDefault();
  };
  if (xs.length === 0) return <p class="quiet">Nothing to draw yet.</p>;
  const [from, to] = [x.low ?? xs[0] ?? 0, x.high ?? xs.at(-1) ?? 0];
  const inside = (props.marks ?? []).filter(({ at: when }) => when >= from && when <= to);
  return (
    <div class="chart" id={id}>
      <div
        ref={box}
        class="plot"
        role="application"
        aria-roledescription="chart"
        aria-label={`${label}${inside.length ? ` Marked: ${inside.map((one) => `${one.name} at ${x.show(one.at)}`).join(", ")}.` : ""} Arrow keys move along it.`}
        tabIndex={0}
        onKeyDown={key}
      />
      <p class="axes quiet">
        <span>↑ {y.name}</span>
        <span>{x.name} →</span>
      </p>
      <div class="split">
        <ul class="legend">
          {drawn.map(({ one }) => (
            <li key={one.name}>
              <Swatch {...one} />
              {one.name}
            </li>
          ))}
          {[false, true].map((back) => {
            const [one] = inside.filter((each) => (each.back ?? false) === back);
            return one && (
              <li key={one.name}>
                <svg class={back ? "marked back" : "marked"} width="12" height="14" viewBox="0 0 12 14" aria-hidden="true"><path d="M6 1V14M2 1h8L6 6z" /></svg>
                {one.name}
              </li>
            );
          })}
        </ul>
      </div>
      <output class="tip" aria-live="polite">{at ? told(props, at.index, at.series) : "\u00a0"}</output>
      {table && <Values {...props} />}
    </div>
  );
}

function told({ x, xs, y, series, tell }: ChartProps, index: number, which: number): string {
  if (tell) return tell(index, which);
  const values = series.flatMap(({ name, values }) => {
    const value = values[index];
    return value == null ? [] : [`${name} ${y.show(value)}`];
  });
  return [`${x.name} ${x.show(xs[index] ?? 0)}`, ...values].join(" · ");
}

function Values({ label, x, xs, y, series }: ChartProps) {
  const [open, show] = useState(false);
  const rows = xs.map((at, index) => ({ at, index }));
  return (
    <details onToggle={(event) => show(event.currentTarget.open)}>
      <summary>As a table</summary>
      {open && (
        <Table
          caption={label}
          rows={rows}
          keyOf={({ index }) => String(index)}
          columns={[
            { name: x.name, cell: ({ at }) => x.show(at) },
            ...series.map(({ name, values }) => ({
              name,
              cell: ({ index }: { index: number }) => {
                const value = values[index];
                return value == null ? "–" : y.show(value);
              },
            })),
          ]}
        />
      )}
    </details>
  );
}

const SHAPES: Record<Mark, string> = {
  circle: "M14 2.5a3.5 3.5 0 1 0 .01 0z",
  diamond: "M14 1l5 5-5 5-5-5z",
  square: "M10 2h8v8h-8z",
};

function Swatch({ ink, dashed, mark, line }: Series) {
  return (
    <svg class={`swatch ink-${ink}`} width="28" height="12" viewBox="0 0 28 12" aria-hidden="true">
      {(!mark || line) && <path d="M1 6H27" stroke="currentColor" stroke-width="2.5" stroke-dasharray={dashed ? "6 4" : undefined} />}
      {mark && <path d={SHAPES[mark]} fill="currentColor" />}
    </svg>
  );
}

// Counts up when the reader's colours change, so that what is drawn on a canvas is drawn anew.
export function useTheme(): number {
  const [changes, change] = useState(0);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const told = () => change((before) => before + 1);
    dark.addEventListener("change", told);
    return () => dark.removeEventListener("change", told);
  }, []);
  return changes;
}
