// The hosts of a rollout: which stage, how far, and what their NICs get; those with a failure first.
import { natural } from "../../parts/order.ts";
import { Table } from "../../parts/table.tsx";
import type { ListedRollout, RolloutHost } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { progressOf } from "./rollout-words.ts";

export function RolloutHosts({ of }: { of: ListedRollout }) {
  const each = useLive<{ hosts: RolloutHost[] }>(of.summary.hosts ? looks.rolloutHosts(of.id) : null).value?.hosts;
  if (!each?.length) return null;
  const urgency = (one: RolloutHost) => (one.detail ? 0 : 1);
  return (
    <Table
      id="rollout-hosts"
      caption="Hosts of the rollout"
      rows={[...each].sort((one, other) => urgency(one) - urgency(other) || one.stage - other.stage || natural(one.host, other.host))}
      keyOf={(one) => one.host}
      text={(one) => `${one.host} ${progressOf(one, of)} ${one.detail}`}
      columns={[
        {
          name: "Host and stage",
          cell: (one) => (
            <>
              {one.host} <span class="absent">stage {one.stage + 1}</span>
              {!one.writes && <span class="tag">dry run</span>}
              {one.detail && <small>{one.detail}</small>}
            </>
          ),
          by: (one) => one.host,
        },
        { name: "Progress", cell: (one) => progressOf(one, of), tone: (one) => `progress ${one.progress.replace("_", "-")}`, words: true, by: (one) => progressOf(one, of) },
        { name: "NICs, from → to", cell: (one) => changes(one).map((line) => <small key={line}>{line}</small>), words: true },
      ]}
    />
  );
}

// A line for each value of each NIC; before it is worked out what every NIC is to get.
const changes = ({ host, diff, target }: RolloutHost): string[] =>
  diff ? diff.split("\n").map((line) => line.replace(`${host}/`, "")) : Object.entries(target).map(([name, value]) => `${name} ${value}`);
