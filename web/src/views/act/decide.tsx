// Approving and rejecting, each asked for once more before it is done.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { confirmed } from "../../parts/ask.tsx";
import { focusOn } from "../../parts/focus.ts";
import { Sentence } from "../../parts/sentence.tsx";
import { Comparison } from "../../recommendation/comparison.tsx";
import { Remarks } from "../../recommendation/remarks.tsx";
import { Table } from "../../parts/table.tsx";
import { WatermarkChange } from "../../recommendation/watermark-change.tsx";
import { act } from "../../service/acts.ts";
import type { Recommendation, SwitchState } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { sameWatermark, several, spelled, watermark } from "../../format.ts";

export function DecisionPanel({ of, children }: { of: Recommendation; children: ComponentChildren }) {
  const switches = useLive<SwitchState[]>(looks.switches).value ?? [];
  const [busy, work] = useState(false);
  const decide = async (what: "approve" | "reject") => {
    const yes = await confirmed(what === "approve" ? approving(of, switches) : REJECTING);
    if (!yes) return;
    work(true);
    const done = await act(`/v1/recommendations/${encodeURIComponent(of.id)}/${what}`);
    work(false);
    if (done) focusOn(what === "approve" ? "rollout" : "recommendation");
  };
  return (
    <div class="decide">
      <div>
        <WatermarkChange id="watermark" now={of.incumbent} better={of.recommendation} />
        {of.staged && !sameWatermark(of.staged, of.recommendation) && (
          <p id="staged">An approval takes one step towards it: {spelled(of.staged)}.</p>
        )}
        <Sentence id="why">{of.why}</Sentence>
        <Remarks of={of} />
        {of.status === "pending" && (
          <div class="row" id="actions">
            <button id="approve" class="primary" type="button" disabled={busy} onClick={() => decide("approve")}>Approve</button>
            <button id="reject" type="button" disabled={busy} onClick={() => decide("reject")}>Reject</button>
          </div>
        )}
        {of.status === "pending" && <Planned of={of} switches={switches} />}
        {children}
      </div>
      <div>
        <h3>What the twin predicts</h3>
        <Comparison id="compare" caption="Predictions for what runs and what is recommended" now={of.incumbent} better={of.recommendation} by={of.score_is} />
      </div>
    </div>
  );
}

// What an approval would change, switch by switch.
function Planned({ of, switches }: { of: Recommendation; switches: readonly SwitchState[] }) {
  const wanted = of.staged ?? of.recommendation;
  const rows = of.switches.map((name) => ({ name, known: switches.find((one) => one.name === name) }));
  if (rows.length === 0) return null;
  return (
    <details id="planned">
      <summary>What an approval would change on {several(rows.length, "switch", "switches")}</summary>
      <Table
        caption="What an approval would change"
        rows={rows}
        keyOf={({ name }) => name}
        columns={[
          { name: "Switch", cell: ({ name, known }) => <>{name}{known && !known.writes && <span class="tag">dry run</span>}</> },
          { name: "Runs", cell: ({ known }) => runs(known), words: true },
          { name: "Would run", cell: ({ known }) => (known?.running && sameWatermark(known.running, wanted) ? "the same" : watermark(wanted)), words: true },
        ]}
      />
    </details>
  );
}

const runs = (known: SwitchState | undefined) =>
  known?.running ? watermark(known.running) : known?.queues.length ? "differs by queue" : "not known";

const REJECTING = {
  title: "Reject the recommendation?",
  text: "Nothing is set, and it is turned down for good. The next round may propose another.",
  yes: "Reject",
};

function approving(of: Recommendation, switches: readonly SwitchState[]) {
  const chosen = switches.filter(({ name }) => of.switches.includes(name));
  const dry = chosen.length > 0 && chosen.every(({ writes }) => !writes);
  const number = several(of.switches.length, "switch", "switches");
  const wanted = of.staged ?? of.recommendation;
  return {
    title: "Approve and roll out?",
    text:
      `${dry ? `A dry run on ${number}: nothing is written. It shows what ` : `${number}, a canary first, `}` +
      `${dry ? "would be set" : "will be set"} to ${spelled(wanted)}` +
      `${dry ? "." : ", read back and watched; it takes itself back where the network gets worse."}`,
    names: of.switches.map((name) => {
      const running = chosen.find((one) => one.name === name)?.running;
      return running ? `${name}: ${watermark(running)} → ${watermark(wanted)}` : name;
    }),
    yes: "Approve",
  };
}
