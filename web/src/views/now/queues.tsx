// The deepest queues, as figures.
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import type { Queue, State } from "../../service/documents.ts";
import { LISTED } from "../../service/looks.ts";
import { bits, bytes, count, percent } from "../../format.ts";

const queueName = (one: Queue) => `${one.switch} ${one.port} · ${one.queue}`;

// Of its port's rate; null where either is not known.
const share = ({ throughput_bytes_per_s: sent, capacity_bytes_per_s: rate }: Queue) => (rate && sent !== null ? sent / rate : null);

export function QueueTable({ state }: { state: State }) {
  const rows = state.queues.slice(0, LISTED);
  return (
    <Panel id="deepest" title="Deepest queues" note={`${count(rows.length)} of ${count(state.queue_count)}`}>
      <Table
        id="queues"
        caption="Deepest queues"
        rows={rows}
        keyOf={queueName}
        text={queueName}
        tight
        columns={[
          { name: "Queue", cell: queueName, by: queueName },
          { name: "Mean", cell: (one) => bytes(one.depth_mean_bytes), by: (one) => one.depth_mean_bytes },
          { name: "99 %", cell: (one) => bytes(one.depth_p99_bytes), by: (one) => one.depth_p99_bytes },
          { name: "Marked", cell: (one) => percent(one.marked_ratio), by: (one) => one.marked_ratio },
          { name: "Load", cell: (one) => (share(one) === null ? bits(one.throughput_bytes_per_s) : percent(share(one))), by: share },
        ]}
      />
    </Panel>
  );
}
