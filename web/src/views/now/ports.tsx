// What counters say of the ports that lose or are paused most.
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import type { PortRates, State } from "../../service/documents.ts";
import { percent, perSecond, several } from "../../format.ts";

const SHOWN = 8;
const name = (port: PortRates) => `${port.switch} ${port.port}`;

export function Ports({ state }: { state: State }) {
  if (state.port_count === 0) return null;
  return (
    <Panel id="ports" title="Ports that lose or are paused most" note={`${several(state.port_count, "port")} with counters`}>
      <Table
        caption="Ports that lose or are paused most"
        rows={state.ports.slice(0, SHOWN)}
        keyOf={name}
        columns={[
          { name: "Port", cell: name },
          {
            name: "Dropped",
            cell: (one) => perSecond(one.drops_per_s),
            tone: (one) => ((one.drops_per_s ?? 0) > 0 ? "worse" : ""),
          },
          { name: "by WRED", cell: (one) => perSecond(one.wred_drops_per_s) },
          { name: "Paused", cell: (one) => percent(one.pause_share) },
          { name: "PFC in", cell: (one) => perSecond(one.pfc_rx_frames_per_s) },
          { name: "PFC out", cell: (one) => perSecond(one.pfc_tx_frames_per_s) },
          { name: "Marked", cell: (one) => perSecond(one.ecn_marked_per_s) },
          { name: "CNP", cell: (one) => perSecond(one.cnp_per_s) },
        ]}
      />
    </Panel>
  );
}
