// The switches of a pod as cells, each a gauge of its deepest queue above a foot of its busiest port's load.
import { useMemo } from "preact/hooks";
import { bytes, count, few, percent, portion } from "../format.ts";
import { type Seen, fullness, zoneOf } from "./overview.ts";
import { loadClass } from "./model.ts";

export const WIDE = 11;
export const TALL = 18;
const STEP_X = 14;
const STEP_Y = 26;

interface Props {
  switches: readonly Seen[]; // the highest first
  across: number; // cells in a line at most
  deepest: number; // of the whole fabric, in bytes
  onPoint: (at: Seen | null) => void;
}

export function Cells({ switches, across, deepest, onPoint }: Props) {
  const placed = useMemo(() => places(switches, across), [switches, across]);
  const height = STEP_Y * (1 + Math.max(0, ...placed.map(({ line }) => line))) - (STEP_Y - TALL) + 5;
  const point = (event: PointerEvent) => {
    const frame = (event.currentTarget as Element).getBoundingClientRect();
    const scale = (STEP_X * across) / frame.width;
    const [column, line] = [Math.floor(((event.clientX - frame.left) * scale) / STEP_X), Math.floor(((event.clientY - frame.top) * scale) / STEP_Y)];
    onPoint(placed.find((one) => one.column === column && one.line === line)?.of ?? null);
  };
  return (
    <svg class="cells" viewBox={`0 0 ${STEP_X * across} ${height}`} aria-hidden="true" onPointerMove={point} onPointerLeave={() => onPoint(null)}>
      <Drawn placed={placed} deepest={deepest} />
    </svg>
  );
}

interface Place {
  of: Seen;
  column: number;
  line: number;
}

// A line is of one role.
function places(switches: readonly Seen[], across: number): Place[] {
  const found: Place[] = [];
  let [column, line] = [0, 0];
  switches.forEach((of, at) => {
    if (at > 0 && (column === across || of.role !== switches[at - 1]?.role)) [column, line] = [0, line + 1];
    found.push({ of, column, line });
    column += 1;
  });
  return found;
}

function Drawn({ placed, deepest }: { placed: readonly Place[]; deepest: number }) {
  return useMemo(() => {
    const bar = (x: number, y: number, tall: number) => `M${x} ${y.toFixed(1)}h${WIDE}v${tall.toFixed(1)}h-${WIDE}z`;
    const ground: string[] = [];
    const fills: Record<string, string[]> = {};
    const loads: Record<string, string[]> = {};
    for (const { of, column, line } of placed) {
      const [x, y] = [column * STEP_X + 1, line * STEP_Y];
      ground.push(bar(x, y, TALL));
      (loads[`load-${loadClass(of.load) ?? "none"}`] ??= []).push(`M${x} ${y + TALL + 2}h${WIDE}`);
      if (of.depth_p99_bytes === null) continue;
      const tall = Math.max(1, TALL * fullness(of, deepest));
      (fills[`zone-${zoneOf(of) ?? "none"}`] ??= []).push(bar(x, y + TALL - tall, tall));
    }
    return (
      <>
        <path class="gauge" d={ground.join("")} />
        {Object.entries(fills).map(([kind, paths]) => <path key={kind} class={`depth ${kind}`} d={paths.join("")} />)}
        {Object.entries(loads).map(([kind, paths]) => <path key={kind} class={`foot ${kind}`} d={paths.join("")} />)}
      </>
    );
  }, [placed, deepest]);
}

export function said(one: Seen): string {
  const { name, deepest_port: deep, depth_p99_bytes: depth, kmin_bytes: kmin, kmax_bytes: kmax, load, busiest_port: busy } = one;
  return [
    name,
    depth === null ? "no depth known" : `deepest ${deep}: 99 % ${bytes(depth)}${kmin === null ? "" : ` (Kmin ${bytes(kmin)}, Kmax ${bytes(kmax)})`}`,
    load === null ? "load not known" : `busiest ${busy}: ${percent(load)}`,
    ...(one.over_kmin ? [`${count(one.over_kmin)} of ${count(one.queues)} queues over Kmin`] : []),
    ...(one.pause_share ? [`paused ${portion(one.pause_share)}`] : []),
    ...(one.drops_per_s ? [`${few(one.drops_per_s)} drops a second`] : []),
  ].join(" · ");
}
