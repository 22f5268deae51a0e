// The map of a large fabric: from pods to their switches to the ports of one.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Table } from "../parts/table.tsx";
import { bytes, count, percent, perSecond, portion, several } from "../format.ts";
import { useLive } from "../service/live.ts";
import * as looks from "../service/looks.ts";
import { Cells, TALL, WIDE, said } from "./cells.tsx";
import { Legend } from "./legend.tsx";
import { FabricMap } from "./map.tsx";
import { loadClass } from "./model.ts";
import { type Overview, type Pod, type Seen, type SwitchPorts, fullness, most, oneSwitch, podsOf, sum, zoneOf } from "./overview.ts";

interface At {
  pod: string | null;
  of: string | null; // a switch
}

const EVERYWHERE: At = { pod: null, of: null };

export function DrillMap({ overview }: { overview: Overview }) {
  const pods = useMemo(() => podsOf(overview), [overview]);
  const all = useMemo(() => pods.flatMap(({ switches }) => switches), [pods]);
  const deepest = most(all, "depth_p99_bytes")?.depth_p99_bytes ?? 0;
  const [at, go] = useState(EVERYWHERE);
  const [open, show] = useState(false);
  const top = useRef<HTMLDivElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    if (moved.current) top.current?.focus();
    moved.current = true;
  }, [at]);
  const pod = pods.find(({ name }) => name === at.pod);
  const enter = (of: Seen) => go({ pod: of.pod, of: of.name });
  return (
    <div class="fabric drill">
      <div ref={top} class="row trail" role="navigation" aria-label="Where in the fabric" tabIndex={-1}>
        <Step name="All pods" here={at.pod === null} go={() => go(EVERYWHERE)} />
        {at.pod !== null && <Step name={at.pod} inside here={at.of === null} go={() => go({ pod: at.pod, of: null })} />}
        {at.of !== null && <Step name={at.of} inside here go={() => undefined} />}
      </div>
      {at.of !== null ? (
        <OneSwitch key={at.of} name={at.of} />
      ) : pod ? (
        <Switches pod={pod} deepest={deepest} enter={enter} />
      ) : (
        <Pods pods={pods} deepest={deepest} enter={(one) => go({ pod: one.name, of: null })} />
      )}
      <details onToggle={(event) => show(event.currentTarget.open)}>
        <summary>All switches as a table</summary>
        {open && <SwitchTable switches={all} enter={enter} />}
      </details>
    </div>
  );
}

function Step({ name, here, inside = false, go }: { name: string; here: boolean; inside?: boolean; go: () => void }) {
  return (
    <>
      {inside && <span class="quiet" aria-hidden="true">›</span>}
      {here ? <b aria-current="location">{name}</b> : <button class="small" type="button" onClick={go}>{name}</button>}
    </>
  );
}

function Pods({ pods, deepest, enter }: { pods: readonly Pod[]; deepest: number; enter: (pod: Pod) => void }) {
  const [pointed, point] = useState<Seen | null>(null);
  return (
    <>
      <ul class="pods">
        {pods.map((pod) => (
          <li key={pod.name} class={above(pod) ? "above" : ""}>
            <button type="button" class="pod" onClick={() => enter(pod)}>
              <b>{pod.name}</b>
              <small>{several(pod.switches.length, "switch", "switches")}{sum(pod.switches, "hosts") > 0 && `, ${several(sum(pod.switches, "hosts"), "host")}`}</small>
              <Cells switches={pod.switches} across={above(pod) ? 40 : 16} deepest={deepest} onPoint={point} />
              <small class="worst">{worst(pod.switches)}</small>
            </button>
          </li>
        ))}
      </ul>
      <output class="tip" aria-live="polite">{pointed ? said(pointed) : "A cell is a switch: its deepest queue, and its busiest port at the foot. Choose a pod to see its switches."}</output>
      <Legend cables={false} of="switch" />
    </>
  );
}

// Many switches over the whole width, as their cables lead to all pods.
const above = ({ name, switches }: Pod): boolean => switches.every(({ role }) => role === name) && switches.length > 16;

function worst(switches: readonly Seen[]): string {
  const [deep, over] = [most(switches, "depth_p99_bytes"), sum(switches, "over_kmin")];
  if (!deep) return "no queue seen";
  return `${over ? `${several(over, "queue")} over Kmin` : "no queue over Kmin"}, deepest ${bytes(deep.depth_p99_bytes)}`;
}

function Switches({ pod, deepest, enter }: { pod: Pod; deepest: number; enter: (of: Seen) => void }) {
  return (
    <>
      <ul class="switches">
        {pod.switches.map((one) => (
          <li key={one.name}>
            <button type="button" class="pod" onClick={() => enter(one)} aria-label={said(one)}>
              <Gauge of={one} deepest={deepest} />
              <b>{short(one.name, pod.name)}</b>
              <small>{bytes(one.depth_p99_bytes)}{one.load !== null && ` · ${percent(one.load)} busy`}</small>
              <small>{several(one.over_kmin, "queue")} over Kmin</small>
            </button>
          </li>
        ))}
      </ul>
      <p class="quiet">{several(pod.switches.length, "switch", "switches")}. Choose one to see its ports.</p>
      <Legend cables={false} of="switch" />
    </>
  );
}

// Its name without the pod's, which stands above.
function short(name: string, pod: string): string {
  return name.startsWith(pod) && name.length > pod.length + 1 ? name.slice(pod.length + 1) : name;
}

function Gauge({ of, deepest }: { of: Seen; deepest: number }) {
  const tall = of.depth_p99_bytes === null ? 0 : Math.max(1, TALL * fullness(of, deepest));
  return (
    <svg class="cell" viewBox={`0 0 ${WIDE} ${TALL + 4}`} aria-hidden="true">
      <path class="gauge" d={`M0 0h${WIDE}v${TALL}h-${WIDE}z`} />
      <path class={`depth zone-${zoneOf(of) ?? "none"}`} d={`M0 ${TALL - tall}h${WIDE}v${tall}h-${WIDE}z`} />
      <path class={`foot load-${loadClass(of.load) ?? "none"}`} d={`M0 ${TALL + 2}h${WIDE}`} />
    </svg>
  );
}

function OneSwitch({ name }: { name: string }) {
  const { value, problem } = useLive<SwitchPorts>(looks.switchPorts(name));
  const made = useMemo(() => (value ? oneSwitch(value) : null), [value]);
  if (!made) return <p class="quiet" role="status">{problem ? problem.message : `Reading the ports of ${name}…`}</p>;
  const ports = [...made.ports.values()];
  return (
    <>
      <FabricMap fabric={made} label={`${name}, ${several(ports.length, "port")}.`} />
      <Table
        caption={`Ports of ${name}`}
        rows={ports}
        keyOf={({ port }) => port}
        text={({ port, to }) => `${port} ${to ?? ""}`}
        tight
        columns={[
          { name: "Port", cell: ({ port }) => port, by: ({ port }) => port },
          { name: "Leads to", cell: ({ to }) => to ?? "–", by: ({ to }) => to, words: true },
          { name: "Load", cell: ({ load }) => percent(load), by: ({ load }) => load },
          { name: "99 %", cell: ({ queue }) => bytes(queue?.depth_p99_bytes), by: ({ queue }) => queue?.depth_p99_bytes ?? null },
          { name: "Marked", cell: ({ queue }) => percent(queue?.marked_ratio), by: ({ queue }) => queue?.marked_ratio ?? null },
        ]}
      />
    </>
  );
}

function SwitchTable({ switches, enter }: { switches: readonly Seen[]; enter: (of: Seen) => void }) {
  return (
    <Table
      id="fabric-table"
      caption="Switches with their busiest port and deepest queue"
      rows={switches}
      keyOf={({ name }) => name}
      text={({ name, pod, role }) => `${name} ${pod} ${role}`}
      columns={[
        { name: "Switch", cell: (one) => <button class="small" type="button" onClick={() => enter(one)}>{one.name}</button>, by: ({ name }) => name },
        { name: "Pod", cell: ({ pod }) => pod, by: ({ pod }) => pod, words: true },
        { name: "Ports", cell: ({ ports }) => count(ports), by: ({ ports }) => ports },
        { name: "Load", cell: ({ load }) => percent(load), by: ({ load }) => load },
        { name: "99 %", cell: ({ depth_p99_bytes: depth }) => bytes(depth), by: ({ depth_p99_bytes: depth }) => depth },
        { name: "Over Kmin", cell: ({ over_kmin: over }) => count(over), by: ({ over_kmin: over }) => over },
        { name: "Over Kmax", cell: ({ over_kmax: over }) => count(over), by: ({ over_kmax: over }) => over },
        { name: "Marked", cell: ({ marked_ratio: marked }) => percent(marked), by: ({ marked_ratio: marked }) => marked },
        { name: "Paused", cell: ({ pause_share: paused }) => portion(paused), by: ({ pause_share: paused }) => paused },
        { name: "Dropped", cell: ({ drops_per_s: drops }) => perSecond(drops), by: ({ drops_per_s: drops }) => drops },
      ]}
    />
  );
}
