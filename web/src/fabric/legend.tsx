// What the map's lines and bars mean. Load is told by width too, depth by height too, not by colour alone.
import { LOAD_STEPS } from "./model.ts";

const parts = [0, ...LOAD_STEPS].map((from, place) => ({
  kind: `load-${place}`,
  text: place === LOAD_STEPS.length ? `${100 * from} % and more` : place === 0 ? `under ${100 * (LOAD_STEPS[0] ?? 0)} %` : `from ${100 * from} %`,
}));

export function Legend({ cables, of = "port" }: { cables: boolean; of?: "port" | "switch" }) {
  return (
    <div class="map-legend">
      <ul class="legend" aria-label="Load">
        {parts.map(({ kind, text }) => (
          <li key={kind}>
            <svg width="26" height="12" aria-hidden="true"><path class={`cable ${kind}`} d="M1 6h24" /></svg>
            {text}
          </li>
        ))}
        <li><svg width="26" height="12" aria-hidden="true"><path class="cable load-none" d="M1 6h24" /></svg>not known</li>
      </ul>
      <ul class="legend" aria-label="Queues">
        <li>
          <svg width="54" height="40" aria-hidden="true">
            <path class="gauge" d="M3 2h12v36h-12z" />
            <path class="depth zone-1" d="M3 18h12v20h-12z" />
            <path class="ticks" d="M3 14h12M3 26h12" />
            {of === "port" && <path class="means" d="M1.5 33h15" />}
            <text x="21" y="17.5">Kmax</text>
            <text x="21" y="29.5">Kmin</text>
          </svg>
          <span>
            {of === "port" ? "bar: 99 % of a port’s deepest queue; line across: its mean; foot: load." : "bar: 99 % of a switch’s deepest queue; foot: load of its busiest port."}
            {cables && " Of a cable, each half shows what leaves its end."}
          </span>
        </li>
      </ul>
    </div>
  );
}
