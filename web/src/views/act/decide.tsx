// Approving and rejecting, each asked for once more before it is done.
import { useState } from "preact/hooks";
import { confirmed } from "../../parts/ask.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Comparison } from "../../recommendation/comparison.tsx";
import { Remarks } from "../../recommendation/remarks.tsx";
import { WatermarkChange } from "../../recommendation/watermark-change.tsx";
import { act } from "../../service/acts.ts";
import type { Recommendation, SwitchState } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { sameWatermark, several, spelled, watermark } from "../../format.ts";

export function DecisionPanel({ of }: { of: Recommendation }) {
  const switches = useLive<SwitchState[]>(looks.switches).value ?? [];
  const [busy, work] = useState(false);
  const decide = async (what: "approve" | "reject") => {
    const yes = await confirmed(what === "approve" ? approving(of, switches) : REJECTING);
    if (!yes) return;
    work(true);
    await act(`/v1/recommendations/${encodeURIComponent(of.id)}/${what}`);
    work(false);
  };
  return (
    <>
      <WatermarkChange id="watermark" now={of.incumbent} better={of.recommendation} />
      {of.staged && !sameWatermark(of.staged, of.recommendation) && (
        <p id="staged">An approval takes one step towards it: {spelled(of.staged)}.</p>
      )}
      <Sentence id="why">{of.why}</Sentence>
      <Remarks of={of} />
      <details>
        <summary>What the twin predicts</summary>
        <Comparison id="compare" caption="Predictions for what runs and what is recommended" now={of.incumbent} better={of.recommendation} />
      </details>
      {of.status === "pending" && (
        <div class="row" id="actions">
          <button id="approve" class="primary" type="button" disabled={busy} onClick={() => decide("approve")}>Approve</button>
          <button id="reject" type="button" disabled={busy} onClick={() => decide("reject")}>Reject</button>
        </div>
      )}
    </>
  );
}

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
