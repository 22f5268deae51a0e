// The map as a table: each switch with its busiest port and its deepest queue.
import { Table } from "../parts/table.tsx";
import { bytes, count, percent } from "../format.ts";
import { type Fabric, type Switch, deepestFirst, zone } from "./model.ts";

// Of ports whose load, or queue, is known.
const busiest = ({ ports }: Switch) => ports.filter(({ load }) => load !== null).sort((one, other) => (other.load ?? 0) - (one.load ?? 0))[0];
const deepest = ({ ports }: Switch) => ports.filter(({ queue }) => (queue?.depth_p99_bytes ?? null) !== null).sort(deepestFirst)[0];
const over = ({ ports }: Switch, least: number) => ports.filter((port) => (zone(port) ?? -1) >= least).length;

export function FabricTable({ fabric }: { fabric: Fabric }) {
  return (
    <Table
      id="fabric-table"
      caption="Switches with their busiest port and deepest queue"
      rows={fabric.switches}
      keyOf={({ name }) => name}
      text={({ name }) => name}
      columns={[
        { name: "Switch", cell: ({ name }) => name, by: ({ name }) => name },
        { name: "Ports", cell: ({ ports }) => count(ports.length), by: ({ ports }) => ports.length },
        { name: "Busiest port", cell: (one) => busiest(one)?.port ?? "–", words: true },
        { name: "Its load", cell: (one) => percent(busiest(one)?.load), by: (one) => busiest(one)?.load ?? null },
        { name: "Deepest queue", cell: (one) => deepest(one)?.port ?? "–", words: true },
        { name: "99 %", cell: (one) => bytes(deepest(one)?.queue?.depth_p99_bytes), by: (one) => deepest(one)?.queue?.depth_p99_bytes ?? null },
        { name: "Queues over Kmin", cell: (one) => count(over(one, 1)), by: (one) => over(one, 1) },
        { name: "Queues over Kmax", cell: (one) => count(over(one, 2)), by: (one) => over(one, 2) },
      ]}
    />
  );
}
