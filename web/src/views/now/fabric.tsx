// The fabric as a map and as a table: port by port, or from pods to ports where it is large.
import { useMemo, useState } from "preact/hooks";
import { DrillMap } from "../../fabric/drill.tsx";
import { FabricMap } from "../../fabric/map.tsx";
import { type Fabric, fabric, queuesOf, zone } from "../../fabric/model.ts";
import { type Overview, large } from "../../fabric/overview.ts";
import { FabricTable } from "../../fabric/table.tsx";
import { Panel } from "../../parts/panel.tsx";
import type { QueueColumns, State, SwitchQueues, Topologies, Watermark } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, several } from "../../format.ts";

interface Props {
  overview: Overview;
  state: State;
  incumbent: Watermark | undefined;
}

export function FabricPanel({ overview, state, incumbent }: Props) {
  if (!large(overview)) return <Whole overview={overview} state={state} incumbent={incumbent} />;
  return (
    <Panel id="fabric" title="Fabric" note={told(overview.switch_count, overview.port_count, overview.host_count, overview.topology)}>
      <DrillMap overview={overview} />
    </Panel>
  );
}

// Small enough to be drawn port by port.
function Whole({ overview, state, incumbent }: Props) {
  const all = useLive<QueueColumns>(overview.queue_count > looks.LISTED ? looks.allQueues : null).value;
  const queues = useMemo(() => (all ? queuesOf(all) : state.queues), [all, state.queues]);
  const known = useLive<Topologies>(looks.topology(overview.topology === "discovered")).value;
  const switches = useLive<SwitchQueues[]>(looks.switchQueues).value;
  const [open, show] = useState(false);
  const topology = known ? (known.declared ?? known.discovered) : null;
  const made = useMemo(() => fabric(topology, queues, switches ?? [], incumbent ?? null), [topology, queues, switches, incumbent]);
  if (!known) return null;
  return (
    <Panel id="fabric" title="Fabric" note={note(made, state.topology)}>
      <FabricMap fabric={made} label={`${note(made, state.topology)}. ${over(made)}`} />
      <details onToggle={(event) => show(event.currentTarget.open)}>
        <summary>As a table</summary>
        {open && <FabricTable fabric={made} />}
      </details>
    </Panel>
  );
}

const told = (switches: number, ports: number, hosts: number, topology: string) =>
  `${several(switches, "switch", "switches")}, ${several(ports, "port")}, ${several(hosts, "host")}, ${topology}`;
const note = ({ switches, hosts, ports }: Fabric, topology: string) => told(switches.length, ports.size, hosts.length, topology);

function over({ ports }: Fabric): string {
  const at = (least: number) => [...ports.values()].filter((port) => (zone(port) ?? -1) >= least).length;
  return `${several(at(1), "queue")} over Kmin, ${count(at(2))} of them over Kmax.`;
}
