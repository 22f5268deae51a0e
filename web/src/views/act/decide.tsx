// Approving and rejecting, each asked for once more before it is done.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ActButton } from "../../parts/act-button.tsx";
import { confirmed } from "../../parts/ask.tsx";
import { focusOn } from "../../parts/focus.ts";
import { Sentence } from "../../parts/sentence.tsx";
import { Comparison } from "../../recommendation/comparison.tsx";
import { change, comparedBy } from "../../recommendation/figures.ts";
import { Remarks } from "../../recommendation/remarks.tsx";
import { natural } from "../../parts/order.ts";
import { Table } from "../../parts/table.tsx";
import { WatermarkChange, wasOf } from "../../recommendation/watermark-change.tsx";
import { act } from "../../service/acts.ts";
import type { CoTuning, Recommendation, SwitchState, Watermark } from "../../service/documents.ts";
import { latest } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { useSwitches } from "../../service/switches.ts";
import { nicValues, setsNics } from "../../recommendation/nic-values.ts";
import { overtaken } from "../../recommendation/overtaken.ts";
import { runs } from "./switch-words.ts";
import { gain, sameWatermark, score, several, spelled, watermark } from "../../format.ts";

export function DecisionPanel({ of, children }: { of: Recommendation; children: ComponentChildren }) {
  const switches = useSwitches() ?? [];
  const [busy, work] = useState(false);
  const blocked = of.blocked ?? [];
  const over = of.status === "expired";
  const was = wasOf(of);
  const joint = of.co_tuning?.recommended && setsNics(of.co_tuning) ? of.co_tuning : null;
  const refused = of.nics_refused ?? (joint && roles(joint).length > 0 ? of.roles_refused : null);
  const decide = async (what: "approve" | "reject", together: CoTuning | null = null) => {
    const over = () => overtaken(of.id, what, latest(looks.currentRecommendation));
    const yes = await confirmed({ ...(what === "approve" ? approving(of, switches, together) : REJECTING), over });
    if (!yes) return;
    work(true);
    const withNics = together && {
      parts: ["watermark", "nic", ...(roles(together).length > 0 ? ["roles"] : [])],
      together: { watermark: marks(together.watermark), connectx: together.connectx, connectx_by_class: together.connectx_by_class ?? {}, by_role: Object.fromEntries(roles(together).map((one) => [one.role, marks(one)])) },
    };
    const body = what === "approve" ? { body: { incumbent: marks(of.incumbent), ...withNics } } : {};
    const done = await act(`/v1/recommendations/${encodeURIComponent(of.id)}/${what}`, { method: "POST", ...body });
    work(false);
    if (done) focusOn(what === "approve" ? "rollout" : "recommendation");
  };
  return (
    <div class="decide">
      <div>
        <WatermarkChange id="watermark" now={of.incumbent} better={of.recommendation} was={was} />
        {of.staged && !sameWatermark(of.staged, of.recommendation) && (
          <p id="staged">{of.sets?.includes("nic") ? "Approved with NICs, and their watermark" : "An approval takes one step towards it"}: {spelled(of.staged)}.</p>
        )}
        <Sentence id="why">{of.why}</Sentence>
        <Remarks of={of} />
        {(of.status === "pending" || over) && (
          <div class="row" id="actions">
            {(of.changes || over) && <ActButton id="approve" class="primary" disabled={busy || over || blocked.length > 0} onClick={() => decide("approve")}>Approve</ActButton>}
            {joint && of.status === "pending" && (
              <ActButton id="approve-with-nics" class={of.changes ? "" : "primary"} disabled={busy || blocked.length > 0 || !!refused} onClick={() => decide("approve", joint)}>
                Approve with {beside(joint)}
              </ActButton>
            )}
            <ActButton id="reject" says disabled={busy || over} onClick={() => decide("reject")}>Reject</ActButton>
          </div>
        )}
        {joint && of.status === "pending" && (
          <div id="with-nics">
            <Sentence>{joint.sentence}</Sentence>
            <p class="quiet">With {beside(joint)} sets {spelled(joint.watermark)}{byRole(joint)}; on every host {nicValues(joint)}.{refused ? ` Not now: ${refused}.` : ""}</p>
          </div>
        )}
        {of.status === "pending" && of.changes && <Planned of={of} switches={switches} />}
        {children}
      </div>
      <div>
        <h3>What the twin predicts</h3>
        <Comparison id="compare" caption="Predictions for what runs and what is recommended" now={of.incumbent} better={of.recommendation} by={of.score_is} names={[`${was.charAt(0).toUpperCase()}${was.slice(1)}`, "New"]} />
      </div>
    </div>
  );
}

const marks = ({ kmin_bytes, kmax_bytes, pmax }: Watermark) => ({ kmin_bytes, kmax_bytes, pmax });
const roles = ({ by_role }: CoTuning) => by_role ?? [];
const beside = (joint: CoTuning): string => (roles(joint).length > 0 ? "NICs and roles" : "NICs");
const byRole = (joint: CoTuning): string => roles(joint).map((one) => `; on ports of ${one.role} ${spelled(one)}`).join("");

// What an approval would change, switch by switch.
function Planned({ of, switches }: { of: Recommendation; switches: readonly SwitchState[] }) {
  const wanted = of.staged ?? of.recommendation;
  const rows = [...of.switches].sort(natural).map((name) => ({ name, known: switches.find((one) => one.name === name) }));
  if (rows.length === 0) return null;
  return (
    <details id="planned">
      <summary>What an approval would change on {several(rows.length, "switch", "switches")}</summary>
      <Table
        caption="What an approval would change"
        rows={rows}
        keyOf={({ name }) => name}
        text={({ name }) => name}
        columns={[
          { name: "Switch", cell: ({ name, known }) => <>{name}{known && !known.writes && <span class="tag">dry run</span>}</>, by: ({ name }) => name },
          { name: "Runs", cell: ({ known }) => (known ? runs(known) : "not known"), words: true },
          { name: "Would run", cell: ({ known }) => (known?.running && sameWatermark(known.running, wanted) ? "the same" : watermark(wanted)), words: true },
        ]}
      />
    </details>
  );
}

// The gain, and whatever gets better or worse, as the page beside it has them.
function predicted({ incumbent, recommendation, improvement, score_is: by }: Recommendation): string[] {
  const changes = comparedBy(by)
    .filter(({ good, absolute }) => good !== 0 && !absolute)
    .map((one) => ({ name: one.name, ...change(one.pick(incumbent), one.pick(recommendation), one) }))
    .filter(({ tone }) => tone !== "");
  return [
    by === "gain" ? `Predicted gain ${gain(improvement.score_gain, improvement.score_error)}` : `Predicted score gained ${score(improvement.score_gain)}`,
    ...changes.map(({ name, text }) => `${name} ${text}`),
  ];
}

const REJECTING = {
  title: "Reject the recommendation?",
  text: "Nothing is set, and it is turned down for good. The next round may propose another.",
  yes: "Reject",
};

function approving(of: Recommendation, switches: readonly SwitchState[], together: CoTuning | null) {
  const chosen = switches.filter(({ name }) => of.switches.includes(name));
  const dry = chosen.length > 0 && chosen.every(({ writes }) => !writes);
  const number = `${together ? "NICs of all hosts and " : ""}${several(of.switches.length, "switch", "switches")}`;
  const wanted = together?.watermark ?? of.staged ?? of.recommendation;
  return {
    title: together ? `Approve with ${beside(together)}, and roll out?` : "Approve and roll out?",
    text:
      `${dry ? `A dry run on ${number}: nothing is written. It shows what ` : `${number}, a canary first, `}` +
      `${dry ? "would be set" : "will be set"} to ${spelled(wanted)}${together ? `${byRole(together)}; NICs to ${nicValues(together)}` : ""}` +
      `${dry ? "." : ", read back and watched; it is rolled back if a guard is breached (pauses, drops, queue, throughput)."}`,
    facts: together ? [together.sentence] : predicted(of),
    names: [...of.switches].sort(natural).map((name) => {
      const running = chosen.find((one) => one.name === name)?.running;
      return running ? `${name}: ${watermark(running)} → ${watermark(wanted)}` : name;
    }),
    yes: "Approve",
  };
}
