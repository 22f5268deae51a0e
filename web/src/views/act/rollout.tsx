// The newest rollout: how far it has come, what telemetry sees, and the way back.
import { useState } from "preact/hooks";
import { ActButton } from "../../parts/act-button.tsx";
import { confirmed } from "../../parts/ask.tsx";
import { focusOn } from "../../parts/focus.ts";
import { Panel } from "../../parts/panel.tsx";
import { Status } from "../../parts/status.tsx";
import { act } from "../../service/acts.ts";
import type { ListedRollout, Progress } from "../../service/documents.ts";
import { useRolloutSwitches } from "../../service/switches.ts";
import { when } from "../../format.ts";
import { Happened } from "./rollout-events.tsx";
import { Seen } from "./rollout-seen.tsx";
import { RolloutHashes } from "./rollout-hashes.tsx";
import { RolloutHosts } from "./rollout-hosts.tsx";
import { RolloutSwitches } from "./rollout-switches.tsx";
import { SPOKEN, type Step, dry, hashed, plain, members, said, stalled, steps, touched, touchedHosts, turnedBack } from "./rollout-words.ts";

export function RolloutPanel({ of: newest }: { of: ListedRollout }) {
  const each = useRolloutSwitches(newest);
  const back = turnedBack(newest);
  const still = stalled(newest);
  return (
    <Panel
      id="rollout"
      title="Rollout"
      note={
        <Status id="rollout-phase" tone={back ? "back" : newest.phase === "done" ? "good" : "busy"}>
          {`${dry(newest) ? "dry run, " : ""}${plain(newest.phase)}`}
        </Status>
      }
    >
      <ol id="rollout-steps" class="steps">{steps(newest).map((step) => <Passed key={step.name} step={step} />)}</ol>
      <p id="rollout-said" role="status">{said(newest)}</p>
      {newest.why && <p id="rollout-why" class="turned">Why it was rolled back: {newest.why}</p>}
      {still && <p id="rollout-stalled" class="notice">{still}</p>}
      <Seen of={newest} />
      {hashed(newest) ? <RolloutHashes of={newest} /> : each && <RolloutSwitches of={newest} each={each} />}
      <RolloutHosts of={newest} />
      <div class="split bottom">
        <Undo of={newest} each={hashed(newest) ? newest.hashes : each} />
        <p id="rollout-origin" class="quiet">
          {newest.id} · approved by {newest.approved_by ?? "nobody yet"} · {when(newest.proposed_at)}
        </p>
      </div>
      <Happened id={newest.id} />
    </Panel>
  );
}

function Passed({ step: { name, state, at, back, why } }: { step: Step }) {
  const beside = at ? when(at) : state === "waiting" ? "" : (why ?? SPOKEN[state]);
  return (
    <li class={`${state} ${back ? "back" : ""}`} aria-current={state === "current" ? "step" : undefined}>
      <b>{name}<span class="unseen">: {SPOKEN[state]}</span></b>
      <small>{beside}</small>
    </li>
  );
}

function Undo({ of, each }: { of: ListedRollout; each: readonly { switch: string; writes: boolean; progress: Progress }[] | undefined }) {
  const [asked, ask] = useState<string | null>(null);
  const undo = async () => {
    const names = touched(each ?? []).filter(({ writes }) => writes || dry(of)).map((one) => one.switch);
    const nothing = dry(of) ? "It was a dry run, so nothing is written." : "";
    const hosts = touchedHosts(of);
    const text = names.length || hosts
      ? `${members(names.length, hosts)} will return to what ran before, the last one first. ${nothing}`
      : "No switch is set yet; none will be.";
    if (!(await confirmed({ title: "Roll back?", text, names, yes: "Roll back" }))) return;
    ask(of.id); // until the next look says otherwise
    if (await act(`/v1/rollouts/${encodeURIComponent(of.id)}/rollback`)) focusOn("rollout");
    else ask(null);
  };
  return (
    <div class="row">
      <ActButton id="roll-back" class="danger" says disabled={!each || turnedBack(of) || asked === of.id} onClick={undo}>Roll back</ActButton>
    </div>
  );
}
