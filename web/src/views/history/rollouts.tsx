// The rollouts: how each ended, and why it was taken back where it was.
import { Panel } from "../../parts/panel.tsx";
import { Status, type Tone } from "../../parts/status.tsx";
import { natural } from "../../parts/order.ts";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { address } from "../../router.ts";
import type { ListedRollout, Rollouts } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, named, seconds, watermark } from "../../format.ts";
import { dry, plain, said } from "../act/rollout-words.ts";
import { Past } from "./picked.tsx";

const tone = ({ phase, ended }: ListedRollout): Tone =>
  phase === "done" ? "good" : phase.startsWith("roll") ? "back" : ended ? "plain" : "busy";
const lasted = ({ proposed_at: from, since: until, ended }: ListedRollout) =>
  ended ? seconds((Date.parse(until) - Date.parse(from)) / 1000) : "under way";

export function RolloutsPanel() {
  const rollouts = useLive<Rollouts & { total: number }>(looks.rollouts);
  const found = rollouts.value;
  return (
    <Panel id="rollouts" title="Rollouts" note={found && found.total > 0 && `${count(found.rollouts.length)} of ${count(found.total)}`}>
      <Past of={rollouts} empty={({ rollouts: all }) => all.length === 0} none="Nothing has been rolled out yet: that begins with an approval.">
        {({ rollouts: all }) => (
          <Table
            id="rollouts-table"
            caption="Rollouts, the newest first"
            rows={all}
            keyOf={({ id }) => id}
            text={(one) => `${plain(one.phase)} ${one.why ?? said(one)} ${one.approved_by ?? ""} ${one.stages.flat().join(" ")}`}
            tall
            columns={[
              {
                name: "Began",
                cell: (one) => (
                  <>
                    {one.recommendation ? <a href={address("why", one.recommendation)} title={`Why: ${one.recommendation}`}><Time at={one.proposed_at} /></a> : <Time at={one.proposed_at} />}
                    <small>{one.why ?? said(one)}</small>
                  </>
                ),
                by: (one) => Date.parse(one.proposed_at),
              },
              { name: "Phase", cell: (one) => <><Status tone={tone(one)} spoken={false}>{plain(one.phase)}</Status>{dry(one) && <span class="tag">dry run</span>}</>, words: true, by: (one) => one.phase },
              { name: "To", cell: (one) => (one.summary.target ? watermark(one.summary.target) : one.hashes?.length ? `hash ${one.hashes[0]!.target}` : "–") },
              { name: "Switches", cell: (one) => <span title={one.stages.flat().join(", ")}>{named(one.stages.flat().sort(natural))}</span>, words: true },
              { name: "Approved by", cell: (one) => one.approved_by ?? (one.ended ? "nobody" : "nobody yet"), words: true, by: (one) => one.approved_by },
              { name: "Took", cell: lasted },
            ]}
          />
        )}
      </Past>
    </Panel>
  );
}
