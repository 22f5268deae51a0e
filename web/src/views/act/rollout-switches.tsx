// The switches of a rollout: which stage, how far, before and after; those with a failure first, then those under way;
// each one's diff.
import { useState } from "preact/hooks";
import { natural } from "../../parts/order.ts";
import { Table } from "../../parts/table.tsx";
import type { Progress, Rollout, RolloutSwitch } from "../../service/documents.ts";
import { marks, progressOf } from "./rollout-words.ts";

const UNDER_WAY: readonly Progress[] = ["applying", "applied", "verified"];

export function RolloutSwitches({ of }: { of: Rollout }) {
  const urgency = (one: RolloutSwitch) => (one.detail ? 0 : UNDER_WAY.includes(one.progress) ? 1 : 2);
  const stage = (one: RolloutSwitch) => (one.stage === 0 ? "canary" : of.stages.length > 2 ? `batch ${one.stage}` : "fleet");
  return (
    <>
      <Table
        id="rollout-switches"
        caption="Switches of the rollout"
        rows={[...of.switches].sort((one, other) => urgency(one) - urgency(other) || one.stage - other.stage || natural(one.switch, other.switch))}
        keyOf={(one) => one.switch}
        text={(one) => `${one.switch} ${stage(one)} ${progressOf(one, of)} ${one.detail}`}
        columns={[
          {
            name: "Switch and stage",
            cell: (one) => (
              <>
                {one.switch} <span class="absent">{stage(one)}</span>
                {!one.writes && <span class="tag">dry run</span>}
                {[...one.notes, ...(one.detail ? [one.detail] : [])].map((text) => <small key={text}>{text}</small>)}
              </>
            ),
            by: (one) => one.switch,
          },
          { name: "Progress", cell: (one) => progressOf(one, of), tone: (one) => `progress ${one.progress.replace("_", "-")}`, words: true, by: (one) => progressOf(one, of) },
          { name: "Kmin / Kmax / Pmax, from → to", cell: (one) => <Marks {...marks(one, of)} />, tone: () => "marks", words: true },
        ]}
      />
      <Diffs of={of.switches} />
    </>
  );
}

function Marks({ from, to }: { from: string; to: string }) {
  return (
    <>
      {from && <span class="absent">{from}</span>}
      <span class={from ? "after" : ""}>{to}</span>
    </>
  );
}

// In each platform's own words, as it was or would have been sent.
function Diffs({ of }: { of: readonly RolloutSwitch[] }) {
  const [open, show] = useState(false);
  const known = of.filter(({ diff }) => diff);
  if (known.length === 0) return null;
  return (
    <details id="rollout-diffs" onToggle={(event) => show(event.currentTarget.open)}>
      <summary>The change of each switch</summary>
      {open && known.map((one) => (
        <figure key={one.switch} class="diff">
          <figcaption>{one.switch}</figcaption>
          <pre tabIndex={0}>
            {one.diff.split("\n").map((line, place) => <span key={place} class={kind(line)}>{line}{"\n"}</span>)}
          </pre>
        </figure>
      ))}
    </details>
  );
}

const kind = (line: string) => (line.startsWith("+") ? "added" : line.startsWith("-") || line.startsWith("−") ? "removed" : "");
