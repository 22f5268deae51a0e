// The fabric as a map and as a table.
import { useMemo, useState } from "preact/hooks";
import { FabricMap } from "../../fabric/map.tsx";
import { type Fabric, fabric, zone } from "../../fabric/model.ts";
import { FabricTable } from "../../fabric/table.tsx";
import { Panel } from "../../parts/panel.tsx";
import type { Queue, State, SwitchState, Topologies, Watermark } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, several } from "../../format.ts";

interface Props {
  state: State;
  queues: readonly Queue[]; // all of them
  incumbent: Watermark | undefined;
}

export function FabricPanel({ state, queues, incumbent }: Props) {
  const known = useLive<Topologies>(looks.topology).value;
  const switches = useLive<SwitchState[]>(looks.switches).value;
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

const note = ({ switches, hosts, ports }: Fabric, topology: string) =>
  `${several(switches.length, "switch", "switches")}, ${several(ports.size, "port")}, ${several(hosts.length, "host")}, ${topology}`;

function over({ ports }: Fabric): string {
  const at = (least: number) => [...ports.values()].filter((port) => (zone(port) ?? -1) >= least).length;
  return `${several(at(1), "queue")} over Kmin, ${count(at(2))} of them over Kmax.`;
}
