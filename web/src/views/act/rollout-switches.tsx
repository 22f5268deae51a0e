// The switches of a rollout: which stage, how far, before and after; those with a failure first, then those under way;
// each one's change.
import { useState } from "preact/hooks";
import { natural } from "../../parts/order.ts";
import { Refusal } from "../../parts/sentence.tsx";
import { Table } from "../../parts/table.tsx";
import type { ListedRollout, Progress, RolloutSwitch, SwitchChange } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { marks, progressOf } from "./rollout-words.ts";

const UNDER_WAY: readonly Progress[] = ["applying", "applied", "verified"];

export function RolloutSwitches({ of, each }: { of: ListedRollout; each: readonly RolloutSwitch[] }) {
  const urgency = (one: RolloutSwitch) => (one.detail ? 0 : UNDER_WAY.includes(one.progress) ? 1 : 2);
  const stage = (one: RolloutSwitch) => of.summary.hosts ? `stage ${one.stage + 1} of ${of.stages.length}` : (one.stage === 0 ? "canary" : of.stages.length > 2 ? `batch ${one.stage}` : "fleet");
  return (
    <>
      <Table
        id="rollout-switches"
        caption="Switches of the rollout"
        rows={[...each].sort((one, other) => urgency(one) - urgency(other) || one.stage - other.stage || natural(one.switch, other.switch))}
        keyOf={(one) => one.switch}
        text={(one) => `${one.switch} ${stage(one)} ${progressOf(one, of)} ${one.detail}`}
        columns={[
          {
            name: "Switch and stage",
            cell: (one) => (
              <>
                {one.switch} <span class="absent">{stage(one)}</span>
                {!one.writes && <span class="tag">dry run</span>}
                {[...(one.notes ?? []), ...(one.detail ? [one.detail] : [])].map((text) => <small key={text}>{text}</small>)}
              </>
            ),
            by: (one) => one.switch,
          },
          { name: "Progress", cell: (one) => progressOf(one, of), tone: (one) => `progress ${one.progress.replace("_", "-")}`, words: true, by: (one) => progressOf(one, of) },
          { name: "Kmin / Kmax / Pmax, from → to", cell: (one) => <Marks {...marks(one, of)} />, tone: () => "marks", words: true },
        ]}
      />
      <Changes id={of.id} each={each} />
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

// Of each switch whose change is worked out, and asked for only where it is opened.
function Changes({ id, each }: { id: string; each: readonly RolloutSwitch[] }) {
  const [open, show] = useState(false);
  const known = each.filter(({ after }) => after);
  if (known.length === 0) return null;
  return (
    <details id="rollout-diffs" onToggle={(event) => show(event.currentTarget.open)}>
      <summary>The change of each switch</summary>
      {open && (
        <Table
          caption="The change of each switch"
          rows={known}
          keyOf={(one) => one.switch}
          text={(one) => one.switch}
          columns={[
            { name: "Switch", cell: (one) => one.switch, by: (one) => one.switch },
            { name: "Change", cell: (one) => <Change id={id} name={one.switch} />, words: true },
          ]}
        />
      )}
    </details>
  );
}

// In the platform's own words, as it was or would have been sent.
function Change({ id, name }: { id: string; name: string }) {
  const [open, show] = useState(false);
  const { value, problem } = useLive<{ switches: SwitchChange[] }>(open ? looks.rolloutChange(id, name) : null);
  const found = value?.switches[0];
  return (
    <details class="diff" onToggle={(event) => show(event.currentTarget.open)}>
      <summary>Show<span class="unseen"> the change of {name}</span></summary>
      {open && !found && (problem ? <Refusal problem={problem} /> : <p class="quiet">Looking it up…</p>)}
      {found?.notes.map((text) => <p key={text} class="quiet">{text}</p>)}
      {found && (
        <pre tabIndex={0}>
          {(found.diff || "nothing to change").split("\n").map((line, place) => <span key={place} class={kind(line)}>{line}{"\n"}</span>)}
        </pre>
      )}
    </details>
  );
}

const kind = (line: string) => (line.startsWith("+") ? "added" : line.startsWith("-") || line.startsWith("−") ? "removed" : "");
