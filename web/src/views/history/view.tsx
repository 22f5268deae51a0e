// History: the rounds, what came of each, and who decided.
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { address } from "../../router.ts";
import type { Recommendation, Recommendations } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { DECISIONS, bytes, count, watermark, when } from "../../format.ts";
import type { View } from "../../views.ts";

const DECIDED: Record<string, string> = {
  approved: "approved by",
  rejected: "rejected by",
  rolled_back: "rolled back, approved by",
};
const decided = (one: Recommendation) =>
  one.decided_by ? `${DECIDED[one.status] ?? one.status} ${one.decided_by}` : (DECISIONS[one.status] ?? one.status);

function History() {
  const rounds = useLive<Recommendations>(looks.recommendations).value;
  const rows = rounds?.recommendations ?? [];
  return (
    <>
      <h1 class="unseen">History</h1>
      <Panel id="history" title="Rounds" note={rounds && `${count(rows.length)} of ${count(rounds.total)}`}>
        {rows.length === 0 ? (
          <p class="quiet">No round has been run yet.</p>
        ) : (
          <Table
            caption="Rounds, the newest first"
            rows={rows}
            keyOf={({ id }) => id}
            tall
            columns={[
              { name: "When", cell: (one) => <a href={address("why", one.id)}>{when(one.created)}</a> },
              { name: "Kmin / Kmax / Pmax", cell: (one) => watermark(one.recommendation) },
              {
                name: "Mean queue, predicted",
                cell: (one) => `${bytes(one.incumbent.queue_mean_bytes)} → ${bytes(one.recommendation.queue_mean_bytes)}`,
              },
              { name: "Decision", cell: decided, words: true },
            ]}
          />
        )}
      </Panel>
    </>
  );
}

export const history: View = { path: "history", name: "History", component: History };
