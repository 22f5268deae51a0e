// The ports that lose packets or are paused, by their counters; nothing where none does.
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import type { PortRates, State } from "../../service/documents.ts";
import { perSecond, portion, several } from "../../format.ts";

const name = (port: PortRates) => `${port.switch} ${port.port}`;

export function Ports({ state }: { state: State }) {
  const rows = state.ports.filter((one) => [one.drops_per_s, one.pause_share, one.pfc_rx_frames_per_s, one.pfc_tx_frames_per_s].some((value) => (value ?? 0) > 0));
  if (rows.length === 0) return null;
  return (
    <Panel id="ports" title="Ports with loss or pauses" note={`${several(state.port_count, "port")} with counters`}>
      <Table
        caption="Ports with loss or pauses, the worst first"
        rows={rows}
        keyOf={name}
        text={name}
        columns={[
          { name: "Port", cell: name, by: name },
          {
            name: "Dropped",
            cell: (one) => perSecond(one.drops_per_s),
            by: (one) => one.drops_per_s,
            tone: (one) => ((one.drops_per_s ?? 0) > 0 ? "worse" : ""),
          },
          { name: "by WRED", cell: (one) => perSecond(one.wred_drops_per_s) },
          { name: "Paused", cell: (one) => portion(one.pause_share), by: (one) => one.pause_share },
          { name: "PFC in", cell: (one) => perSecond(one.pfc_rx_frames_per_s) },
          { name: "PFC out", cell: (one) => perSecond(one.pfc_tx_frames_per_s) },
          { name: "Marked", cell: (one) => perSecond(one.ecn_marked_per_s) },
          { name: "CNP", cell: (one) => perSecond(one.cnp_per_s) },
        ]}
      />
    </Panel>
  );
}
