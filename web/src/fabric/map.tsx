// The map drawn: one path for each kind of line or bar, so that a thousand queues cost a few dozen elements.
import { useMemo, useRef, useState } from "preact/hooks";
import { bits, bytes, count, percent } from "../format.ts";
import { useWidth } from "../parts/width.ts";
import { Legend } from "./legend.tsx";
import { fitted } from "./names.ts";
import { type Gauge, type Layout, halves, layout } from "./layout.ts";
import { type Fabric, type Port, deepestFirst, loadClass, standing, zone } from "./model.ts";

const CHARACTER = 7; // as wide as one of a name

interface Props {
  fabric: Fabric;
  label: string;
}

export function FabricMap({ fabric, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [chosen, choose] = useState<string | null>(null);
  const drawn = useMemo(() => layout(fabric, width), [fabric, width]);
  const gauges = useMemo(() => drawn?.faces.flatMap((face) => face.gauges) ?? [], [drawn]);
  const ordered = useMemo(() => gauges.filter(({ port }) => port.queue).sort((one, other) => deepestFirst(one.port, other.port)), [gauges]);
  const at = chosen === null ? undefined : gauges.find(({ port }) => name(port) === chosen);

  const point = (event: PointerEvent) => {
    if (!drawn) return;
    const frame = (event.currentTarget as Element).getBoundingClientRect();
    const found = under(drawn, gauges, event.clientX - frame.left, event.clientY - frame.top);
    choose(found ? name(found.port) : null);
  };
  const step = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") choose(null);
    if (by === undefined || ordered.length === 0) return;
    event.preventDefault();
    const here = at ? ordered.indexOf(at) : by > 0 ? -1 : ordered.length;
    const next = ordered[Math.max(0, Math.min(ordered.length - 1, here + by))];
    if (next) choose(name(next.port));
  };
  return (
    <div class="fabric">
      <div
        ref={box}
        class="map"
        tabIndex={0}
        role="application"
        aria-roledescription="map"
        aria-label={`${label} Arrow keys go from the deepest queue to the next.`}
        onKeyDown={step}
      >
        {drawn && (
          <svg width={drawn.width} height={drawn.height} viewBox={`0 0 ${drawn.width} ${drawn.height}`} aria-hidden="true" onPointerMove={point} onPointerLeave={() => choose(null)}>
            <Still drawn={drawn} gauges={gauges} />
            {at && <Chosen drawn={drawn} at={at} />}
          </svg>
        )}
      </div>
      <output class="tip" aria-live="polite">{at ? told(at.port) : "Point at a port, or go through them by arrow keys, the deepest queue first."}</output>
      {drawn && <Legend cables={drawn.cables.length > 0} />}
      {drawn && drawn.leftOff > 0 && <p class="quiet">{count(drawn.leftOff)} more switches, with shallower queues, are in the table only.</p>}
    </div>
  );
}

const name = ({ switch: of, port }: Port) => `${of} ${port}`;

function Still({ drawn, gauges }: { drawn: Layout; gauges: readonly Gauge[] }) {
  return useMemo(() => {
    const cables: Record<string, string[]> = {};
    const names = fitted(drawn.faces.map(({ of }) => of.name), drawn.faces.map((face) => Math.floor(face.width / CHARACTER)));
    const put = (kind: string, path: string) => (cables[kind] ??= []).push(path);
    for (const cable of drawn.cables) {
      const [near, far] = halves(cable);
      put(loadName(cable.down), near);
      put(cable.up ? loadName(cable.up) : loadName(cable.down), far);
    }
    return (
      <>
        {Object.entries(cables).sort().map(([kind, paths]) => <path key={kind} class={`cable ${kind}`} d={paths.join("")} />)}
        {drawn.faces.map((face) => (
          <rect key={face.of.name} class="face" x={face.x} y={face.y} width={face.width} height={face.height} rx="4" />
        ))}
        <Gauges drawn={drawn} gauges={gauges} />
        {drawn.faces.map((face, place) => <text key={face.of.name} class="switch" {...nameAt(drawn, face)}><title>{face.of.name}</title>{names[place]}</text>)}
        {drawn.hosts.map(({ name: host, x, y }) => (
          <g key={host}>
            <path class="host" d={`M${x - 4} ${y}h8v6h-8z`} />
            {drawn.labels && <text class="host-name" transform={`translate(${Math.round(x + 3.5)} ${Math.round(y + 11)}) rotate(90)`}><tspan>{host}</tspan></text>}
          </g>
        ))}
      </>
    );
  }, [drawn, gauges]);
}

// In a cabled picture the name lies between the rows of ports, in panels above them.
function nameAt(drawn: Layout, face: Layout["faces"][number]) {
  if (drawn.cables.length === 0) return { x: face.x + 6, y: face.y + 13 };
  const tops = [...new Set(face.gauges.map(({ y }) => y))];
  const ups = tops.length > 1 || face.gauges.some(({ port }) => port.up);
  const y = ups ? Math.min(...tops) + drawn.gauge.height + 15 : face.y + 14;
  return { x: face.x + face.width / 2, y, "text-anchor": "middle" as const };
}

function Gauges({ drawn: { gauge, cables }, gauges }: { drawn: Layout; gauges: readonly Gauge[] }) {
  const dense = cables.length === 0;
  const { width, height } = gauge;
  const over = dense ? 0 : 1.5;
  const bar = (x: number, y: number, tall: number) => `M${x.toFixed(1)} ${y.toFixed(1)}h${width}v${tall.toFixed(1)}h-${width}z`;
  const ground: string[] = [];
  const ticks: string[] = [];
  const means: string[] = [];
  const fills: Record<string, string[]> = {};
  const loads: Record<string, string[]> = {};
  const deepest = Math.max(1, ...gauges.map(({ port }) => port.queue?.depth_p99_bytes ?? 0));
  for (const { x, y, port } of gauges) {
    ground.push(bar(x, y, height));
    (loads[loadName(port)] ??= []).push(`M${x.toFixed(1)} ${(y + height + 1.5).toFixed(1)}h${width}`);
    const { queue, mark } = port;
    if (queue?.depth_p99_bytes == null) continue;
    const of = (depth: number) => (mark ? standing(depth, mark) : depth / deepest) * height;
    const tall = Math.max(1, of(queue.depth_p99_bytes));
    (fills[`zone-${zone(port) ?? "none"}`] ??= []).push(bar(x, y + height - tall, tall));
    if (mark) ticks.push(`M${x.toFixed(1)} ${(y + height / 3).toFixed(1)}h${width}M${x.toFixed(1)} ${(y + (2 * height) / 3).toFixed(1)}h${width}`);
    if (queue.depth_mean_bytes !== null) means.push(`M${(x - over).toFixed(1)} ${(y + height - of(queue.depth_mean_bytes)).toFixed(1)}h${width + 2 * over}`);
  }
  return (
    <>
      <path class="gauge" d={ground.join("")} />
      {Object.entries(fills).map(([kind, paths]) => <path key={kind} class={`depth ${kind}`} d={paths.join("")} />)}
      <path class="ticks" d={ticks.join("")} />
      <path class={dense ? "means dense" : "means"} d={means.join("")} />
      {Object.entries(loads).map(([kind, paths]) => <path key={kind} class={`foot ${kind}`} d={paths.join("")} />)}
    </>
  );
}

const loadName = (port: Port | null) => `load-${loadClass(port?.load ?? null) ?? "none"}`;

function Chosen({ drawn, at: { x, y, port } }: { drawn: Layout; at: Gauge }) {
  const { width, height } = drawn.gauge;
  const cable = drawn.cables.find(({ down, up }) => down === port || up === port);
  const paths = cable ? halves(cable) : null;
  return (
    <>
      {paths && <path class="chosen-cable" d={cable?.down === port ? paths[0] + (cable.up ? "" : paths[1]) : paths[1]} />}
      <rect class="chosen" x={x - 2.5} y={y - 2.5} width={width + 5} height={height + 7} rx="2" />
    </>
  );
}

const REACH = 14;

function under(drawn: Layout, gauges: readonly Gauge[], x: number, y: number): Gauge | null {
  const { width, height } = drawn.gauge;
  let best: Gauge | null = null;
  let least = REACH;
  for (const gauge of gauges) {
    const away = Math.max(Math.abs(x - gauge.x - width / 2) - width / 2, Math.abs(y - gauge.y - height / 2) - height / 2, 0);
    const distance = away + Math.abs(x - gauge.x - width / 2) / 100;
    if (distance < least) [least, best] = [distance, gauge];
  }
  return best;
}

const ZONES = ["below Kmin", "between Kmin and Kmax", "above Kmax"];

export function told(port: Port): string {
  const { queue, mark, load, capacity, throughput } = port;
  const at = zone(port);
  const limits = mark ? ` (Kmin ${bytes(mark.kmin_bytes)}, Kmax ${bytes(mark.kmax_bytes)})` : "";
  return [
    `${port.switch} ${port.port}${port.to ? ` → ${port.to}` : ""}`,
    load !== null ? `load ${percent(load)} of ${bits(capacity)}` : throughput !== null ? bits(throughput) : "load not known",
    ...(queue
      ? [
          queue.depth_p99_bytes === null
            ? "depth not known"
            : `queue ${queue.queue}: 99 % ${bytes(queue.depth_p99_bytes)}, mean ${bytes(queue.depth_mean_bytes)}` +
              (at === null ? "" : `, ${ZONES[at]}${limits}`),
          ...(queue.marked_ratio === null ? [] : [`${percent(queue.marked_ratio)} marked`]),
        ]
      : ["no packet seen in the window"]),
  ].join(" · ");
}
