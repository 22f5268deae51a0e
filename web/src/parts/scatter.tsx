// Points in two dimensions, of which some stand out by shape and by a label, with the front that none beats. Arrow keys
// go from point to point; whoever does not see it gets the same from a table that the view gives.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { type Scale, scaleOf, share, ticks } from "./scale.ts";
import { useWidth } from "./width.ts";

export interface ScatterAxis {
  name: string;
  show: (value: number) => string;
  log?: boolean;
}

export type Shape = "dot" | "ring" | "square" | "diamond" | "triangle" | "star";
export interface Group {
  name: string; // in the legend
  shape: Shape;
  ink: "new" | "old" | "quiet" | "third" | "fourth";
  label?: string; // written beside each point
}
export interface Dot {
  x: number;
  y: number;
  group: string;
  from?: { x: number; y: number }; // a line leads from there
}
export interface Level {
  from: [x: number, y: number];
  to: [x: number, y: number];
  label: string;
  strong: boolean;
}

interface Props {
  id: string;
  label: string;
  x: ScatterAxis;
  y: ScatterAxis;
  dots: readonly Dot[];
  groups: Record<string, Group>; // drawn in this order, the last on top
  front?: readonly number[];
  levels?: { name: string; within: (across: Scale, up: Scale) => Level[] };
  tell: (place: number) => ComponentChildren;
}

const HEIGHT = 380;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 16, 14, 30];
const NEAR_PIXELS = 32;
const APART_PIXELS = 15;
const LABEL_PIXELS = 44;

export function Scatter({ id, label, x, y, dots, groups, front = [], levels, tell }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [at, look] = useState<number | null>(null);
  const [across, up] = [scaleOf(dots.map((one) => one.x), x.log ?? false), scaleOf(dots.map((one) => one.y), y.log ?? false)];
  const [inner, tall] = [Math.max(1, width - LEFT - RIGHT), HEIGHT - TOP - BOTTOM];
  const px = (value: number) => LEFT + inner * share(across, value);
  const py = (value: number) => TOP + tall * (1 - share(up, value));
  const chosen = at !== null && at < dots.length ? at : null;

  const move = (event: PointerEvent) => {
    const frame = box.current?.getBoundingClientRect();
    if (!frame) return;
    const radius = ({ group }: Dot) => RADII[groups[group]?.shape ?? "dot"];
    const found = nearest(dots, radius, event.clientX - frame.left, event.clientY - frame.top, px, py);
    if (found !== null) look(found);
  };
  const key = (event: KeyboardEvent) => {
    const found = stepped(event.key, chosen, dots);
    if (found === undefined) return;
    look(found);
    event.preventDefault();
  };
  if (dots.length === 0) return <p class="quiet">Nothing to draw: no candidate has both figures.</p>;
  const kinds = Object.entries(groups).filter(([kind]) => dots.some((one) => one.group === kind));
  const order = kinds.flatMap(([kind]) => dots.map((one, place) => ({ one, place })).filter(({ one }) => one.group === kind));
  return (
    <div class="chart scatter" id={id}>
      <div
        ref={box}
        class="plot"
        role="application"
        aria-roledescription="chart"
        aria-label={`${label} Arrow keys go from point to point.`}
        tabIndex={0}
        onKeyDown={key}
        onPointerMove={move}
        onPointerDown={move}
      >
        <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
          <Axes across={across} up={up} x={x} y={y} width={width} px={px} py={py} />
          {levels && <Levels of={levels.within(across, up)} px={px} py={py} />}
          {dots.flatMap((one, place) =>
            one.from ? [<line key={place} class="leads" x1={px(one.from.x)} y1={py(one.from.y)} x2={px(one.x)} y2={py(one.y)} />] : [],
          )}
          <Front points={front.flatMap((place) => dots[place] ?? [])} px={px} py={py} right={width - RIGHT} bottom={HEIGHT - BOTTOM} />
          {order.map(({ one, place }) => (
            <Symbol key={place} shape={groups[one.group]?.shape ?? "dot"} ink={groups[one.group]?.ink ?? "quiet"} x={px(one.x)} y={py(one.y)} />
          ))}
          {levels && <LevelNames of={levels.within(across, up)} px={px} py={py} />}
          <Labels dots={dots} groups={groups} px={px} py={py} width={width} />
          {chosen !== null && dots[chosen] && (
            <circle class="chosen" cx={px(dots[chosen].x)} cy={py(dots[chosen].y)} r="11" />
          )}
        </svg>
      </div>
      <p class="axes quiet">
        <span>↑ {y.name}</span>
        <span>{x.name} →</span>
      </p>
      <ul class="legend">
        {kinds.map(([kind, { name, shape, ink }]) => (
          <li key={kind}>
            <svg width="20" height="16" viewBox="0 0 20 16" aria-hidden="true"><Symbol shape={shape} ink={ink} x={10} y={8} /></svg>
            {name}
          </li>
        ))}
        {front.length > 1 && (
          <li>
            <svg class="ink-third" width="28" height="12" viewBox="0 0 28 12" aria-hidden="true"><path class="front" d="M1 10H12V2H27" /></svg>
            Pareto front: none is better in both
          </li>
        )}
        {levels && (
          <li>
            <svg class="levels" width="28" height="12" viewBox="0 0 28 12" aria-hidden="true"><line x1="1" y1="10" x2="27" y2="2" /></svg>
            {levels.name}
          </li>
        )}
      </ul>
      <output class="tip" aria-live="polite">
        {chosen === null ? <span class="quiet">Point at a candidate, or use the arrow keys, to read it.</span> : tell(chosen)}
      </output>
    </div>
  );
}

type Place = (value: number) => number;

interface AxesProps {
  across: Scale;
  up: Scale;
  x: ScatterAxis;
  y: ScatterAxis;
  width: number;
  px: Place;
  py: Place;
}

function Axes({ across, up, x, y, width, px, py }: AxesProps) {
  const bottom = HEIGHT - BOTTOM;
  return (
    <g class="scale">
      {ticks(up, 6).map((value) => (
        <g key={value}>
          <line x1={LEFT} x2={width - RIGHT} y1={py(value)} y2={py(value)} />
          <text x={LEFT - 8} y={py(value) + 4} text-anchor="end">{y.show(value)}</text>
        </g>
      ))}
      {ticks(across, Math.max(2, Math.floor(width / 110))).map((value) => (
        <g key={value}>
          <line x1={px(value)} x2={px(value)} y1={bottom} y2={bottom + 5} />
          <text x={px(value)} y={bottom + 19} text-anchor="middle">{x.show(value)}</text>
        </g>
      ))}
      <line x1={LEFT} x2={width - RIGHT} y1={bottom} y2={bottom} />
    </g>
  );
}

type LevelsProps = { of: readonly Level[]; px: Place; py: Place };

function Levels({ of, px, py }: LevelsProps) {
  return (
    <g class="levels">
      {of.map(({ from, to, label, strong }) => (
        <g key={label} class={strong ? "strong" : ""}>
          <line x1={px(from[0])} y1={py(from[1])} x2={px(to[0])} y2={py(to[1])} />
        </g>
      ))}
    </g>
  );
}

function LevelNames({ of, px, py }: LevelsProps) {
  const ends = of.map(({ to, label }) => ({ x: px(to[0]) - 5, y: Math.max(TOP + 12, py(to[1]) + 12), label }));
  const written: typeof ends = []; // those that none before covers, the strong one first
  for (const { place } of of.map(({ strong }, place) => ({ strong, place })).sort((one, other) => Number(other.strong) - Number(one.strong))) {
    const end = ends[place];
    if (end && written.every((other) => Math.abs(other.x - end.x) > LABEL_PIXELS || Math.abs(other.y - end.y) > APART_PIXELS)) written.push(end);
  }
  return <g class="levels">{written.map(({ x, y, label }) => <text key={label} x={x} y={y} text-anchor="end">{label}</text>)}</g>;
}

// Steps: whatever lies below and to the right of a corner is beaten by it.
function Front({ points, px, py, right, bottom }: { points: readonly Dot[]; px: Place; py: Place; right: number; bottom: number }) {
  const [first] = points;
  if (!first || points.length < 2) return null;
  const path = points.slice(1).map((one) => `H${px(one.x)}V${py(one.y)}`).join("");
  return <path class="front ink-third" d={`M${px(first.x)} ${bottom}V${py(first.y)}${path}H${right}`} />;
}

const SHAPES: Record<Shape, string> = {
  dot: "M0-3.2a3.2 3.2 0 1 0 .01 0z",
  ring: "M0-3a3 3 0 1 0 .01 0z",
  square: "M-3.6-3.6h7.2v7.2h-7.2z",
  triangle: "M0-5.5L5.5 4.5H-5.5z",
  diamond: "M0-8.5L8.5 0 0 8.5-8.5 0z",
  star: "M0-10L2.9-3.4 10-2.8 4.6 1.9 6.3 9 0 5.2-6.3 9-4.6 1.9-10-2.8-2.9-3.4z",
};

const RADII: Record<Shape, number> = { dot: 3, ring: 3, square: 4, triangle: 5, diamond: 8, star: 10 };

function Symbol({ shape, ink, x, y }: { shape: Shape; ink: Group["ink"]; x: number; y: number }) {
  return <path class={`symbol ${shape} ink-${ink}`} transform={`translate(${x} ${y})`} d={SHAPES[shape]} />;
}

function Labels({ dots, groups, px, py, width }: { dots: readonly Dot[]; groups: Record<string, Group>; px: Place; py: Place; width: number }) {
  const taken: number[] = [];
  return (
    <g class="labels">
      {dots.flatMap((one, place) => {
        const text = groups[one.group]?.label;
        if (!text) return [];
        const right = px(one.x) > 0.6 * width;
        let y = Math.max(TOP + 8, py(one.y) + 4);
        while (taken.some((other) => Math.abs(other - y) < APART_PIXELS)) y += APART_PIXELS;
        taken.push(y);
        return [
          <text key={place} x={px(one.x) + (right ? -14 : 14)} y={y} text-anchor={right ? "end" : "start"}>{text}</text>,
        ];
      })}
    </g>
  );
}

// From the edge of the symbol: a pointer on a large one means it, not a small one that it covers.
export function nearest(dots: readonly Dot[], radius: (one: Dot) => number, left: number, top: number, px: Place, py: Place): number | null {
  let [best, least]: [number | null, number] = [null, NEAR_PIXELS];
  dots.forEach((one, place) => {
    const distance = Math.hypot(px(one.x) - left, py(one.y) - top) - radius(one);
    if (distance < least) [best, least] = [place, distance];
  });
  return best;
}

// Left and right go in order across, up and down in order up; undefined: no key of ours.
export function stepped(key: string, from: number | null, dots: readonly Dot[]): number | null | undefined {
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[key];
  if (key === "Escape") return null;
  if (by === undefined) return undefined;
  const along = key === "ArrowUp" || key === "ArrowDown" ? "y" : "x";
  const order = dots.map((_, place) => place).sort((one, other) => (dots[one]?.[along] ?? 0) - (dots[other]?.[along] ?? 0));
  const before = from === null ? (by > 0 ? -1 : order.length) : order.indexOf(from);
  return order[Math.max(0, Math.min(order.length - 1, before + by))] ?? null;
}
