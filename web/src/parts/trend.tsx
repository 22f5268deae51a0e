// The last hour, or what is known of it, of one figure as a small line, with the values from which on it is watched or bad, and moments that are
// marked. Its figures stand beside it, so that it is a picture with a sentence.
export interface TrendProps {
  label: string;
  points: readonly (readonly [at: string, value: number])[];
  limits: readonly { value: number; level: "watch" | "bad" }[];
  marks?: readonly string[]; // times, such as those of rollouts
  until: number; // ms since 1970, its right end
}

const [LEAST_MS, SPAN_MS] = [300_000, 3_600_000];
const GAP_MS = 120_000; // longer than this between two points is a gap
const [WIDTH, HEIGHT, ROOM] = [240, 44, 3];

export function Trend({ label, points, limits, marks = [], until }: TrendProps) {
  const values = points.map(([, value]) => value);
  const largest = Math.max(0, ...values);
  const near = limits.filter(({ value }) => value <= 3 * largest); // one far above would flatten the line
  const top = Math.max(largest, ...near.map(({ value }) => value)) * 1.08 || 1;
  const span = Math.min(SPAN_MS, Math.max(LEAST_MS, until - Date.parse(points[0]?.[0] ?? "")));
  const x = (at: number) => ((at - until) / span + 1) * WIDTH;
  const y = (value: number) => HEIGHT - ROOM - (value / top) * (HEIGHT - 2 * ROOM);
  return (
    <svg class="trend" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="base" d={`M0 ${HEIGHT - ROOM}H${WIDTH}`} />
      {near.map(({ value, level }) => <path key={level} class={`limit ${level}`} d={`M0 ${y(value).toFixed(1)}H${WIDTH}`} />)}
      {marks.map((at) => Date.parse(at)).filter((at) => at > until - span && at <= until).map((at) => (
        <path key={at} class="mark" d={`M${x(at).toFixed(1)} 0V${HEIGHT}`} />
      ))}
      <path class="line" d={lineOf(points, x, y)} />
    </svg>
  );
}

export function lineOf(points: TrendProps["points"], x: (at: number) => number, y: (value: number) => number): string {
  let before = -Infinity;
  return points
    .map(([text, value], place) => {
      const at = Date.parse(text);
      const begins = at - before > GAP_MS;
      const alone = begins && (place + 1 === points.length || Date.parse(points[place + 1]?.[0] ?? "") - at > GAP_MS);
      before = at;
      return `${begins ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}${alone ? "h1.5" : ""}`;
    })
    .join("");
}
