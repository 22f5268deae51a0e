// The rounds, the newest first and older ones on request: what each recommended, and who decided what when.
import { useState } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { Refusal } from "../../parts/sentence.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { change } from "../../recommendation/figures.ts";
import { address } from "../../router.ts";
import { round } from "../../shell/round.ts";
import type { Recommendation, Recommendations } from "../../service/documents.ts";
import { useKept } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { NEWEST, older } from "./older.ts";
import { bytes, count, decision, gain, sameWatermark, score, watermark } from "../../format.ts";

const DECIDED: Record<string, string> = {
  approved: "approved by",
  rejected: "rejected by",
  rolled_back: "rolled back, approved by",
};

const queueChange = ({ incumbent, recommendation }: Recommendation) =>
  change(incumbent.queue_mean_bytes, recommendation.queue_mean_bytes, { good: -1 });

// Of older rounds the score, which means something within that round only.
function Gained({ of: { changes, improvement: { score_gain: gained, score_error: error }, score_is: by } }: { of: Recommendation }) {
  if (!changes) return <>–</>; // what was not advised gains nothing
  if (by === "gain") return <>{gain(gained, error)}</>;
  return <>{score(gained)} <span class="absent" title="score, min–max of its round: it compares with no other">score</span></>;
}

function Decided({ of: one }: { of: Recommendation }) {
  if (!one.decided_by) return <>{decision(one.status)}</>;
  return (
    <>
      {DECIDED[one.status] ?? one.status} {one.decided_by}
      {one.decided_at && <small>, <Time at={one.decided_at} /></small>}
    </>
  );
}

export function RoundsPanel() {
  const [listed, list] = useState(NEWEST);
  const { value: newest, problem, awaited } = useKept<Recommendations>(looks.recommendations(listed.most, listed.before));
  const rows = newest?.recommendations ?? [];
  const total = newest?.total ?? 0;
  return (
    <Panel id="history" title="Recommendations and decisions" note={newest && rows.length > 0 && `${count(rows.length)}${listed.before ? " older ones" : ""} of ${count(Math.max(total, rows.length))}`}>
      {problem && !newest && <div class="notice"><Refusal problem={problem} /></div>}
      {newest && rows.length === 0 && <p class="quiet">{round.value ? "A first round is under way." : <>No round has been run yet. <b>Tune now</b> runs one as soon as something is measured.</>}</p>}
      {rows.length > 0 && (
        <Table
          caption="Recommendations, the newest first"
          rows={rows}
          keyOf={({ id }) => id}
          text={(one) => `${one.id} ${decision(one.status)} ${one.decided_by ?? ""} ${watermark(one.recommendation)} ${one.created}`}
          tall
          columns={[
            { name: "When", cell: (one) => <><a href={address("why", one.id)} title={`Why: ${one.id}`}><Time at={one.created} /></a>{one.support && one.support.rounds > 1 && <small> newest round <Time at={one.support.last} /></small>}</>, by: (one) => Date.parse(one.created) },
            { name: "Kmin / Kmax / Pmax", cell: (one) => (sameWatermark(one.recommendation, one.incumbent) ? <>{watermark(one.recommendation)} <span class="absent">(as it was)</span></> : watermark(one.recommendation)) },
            { name: "Mean queue, predicted", cell: (one) => `${bytes(one.incumbent.queue_mean_bytes)} → ${bytes(one.recommendation.queue_mean_bytes)}` },
            { name: "Change", cell: (one) => queueChange(one).text, tone: (one) => queueChange(one).tone, by: ({ incumbent: { queue_mean_bytes: now }, recommendation: { queue_mean_bytes: then } }) => (now && then !== null ? then / now : null) },
            { name: "Gain", cell: (one) => <Gained of={one} />, by: (one) => (one.changes ? one.improvement.score_gain : null) },
            { name: "Rounds", cell: (one) => count(one.support?.rounds ?? 1), by: (one) => one.support?.rounds ?? 1 },
            { name: "Decision", cell: (one) => <Decided of={one} />, words: true, by: (one) => one.status },
          ]}
        />
      )}
      {newest?.next && (
        <button id="older" type="button" disabled={awaited} onClick={() => list(older(listed, newest.next ?? ""))}>{awaited ? "Looking…" : "Show older ones"}</button>
      )}
      {listed.before && <button type="button" onClick={() => list(NEWEST)}>Show the newest</button>}
    </Panel>
  );
}
