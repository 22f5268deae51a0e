// Now: is the fabric well, what would be changed, did the last change help; then what is wrong, and the network itself.
import { useMemo } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import type { Condition, Gains, Readiness, ListedRollout, Rollouts, State } from "../../service/documents.ts";
import type { Overview } from "../../fabric/overview.ts";
import { useCurrent } from "../../service/current.ts";
import { away, now as clock } from "../../service/client.ts";
import { useKept, useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, seconds, when } from "../../format.ts";
import type { View } from "../../views.ts";
import { AlarmsPanel } from "./alarms.tsx";
import { useSince } from "../history/picked.tsx";
import { RANGES, type Range } from "../history/range.ts";
import { dry } from "../act/rollout-words.ts";
import { Advice } from "./advice.tsx";
import { ConditionPanel } from "./condition.tsx";
import { Empty } from "./empty.tsx";
import { FabricPanel } from "./fabric.tsx";
import { Fidelity } from "./fidelity.tsx";
import { Flows } from "./flows.tsx";
import { Ports } from "./ports.tsx";
import { HelpedPanel } from "./helped.tsx";
import { QueueTable } from "./queues.tsx";
import { Strip } from "./strip.tsx";

function Now() {
  const { value: readiness, problem } = useLive<Readiness>(looks.readiness);
  const measured = readiness?.measured ?? false;
  const state = useLive<State>(measured ? looks.state : null).value;
  const overview = useLive<Overview>(measured ? looks.overview : null).value;
  const condition = useLive<Condition>(looks.condition).value;
  const newest = useLive<Rollouts>(looks.newestRollout).value?.rollouts[0];
  const current = useCurrent().value;
  const marks = useHourOfRollouts(newest);
  return (
    <>
      <h1 class="unseen">Now</h1>
      {!readiness && !problem && !away.value && <p class="quiet waiting" role="status">Reading what the network does…</p>}
      {readiness && !measured && !current && <Empty reasons={readiness.reasons} />}
      {condition && measured && <ConditionPanel of={condition} marks={marks} />}
      {(measured || current) && (
        <div class="answers">
          <Advice current={current} newest={newest} readiness={readiness} />
          <HelpedPanel newest={newest} />
        </div>
      )}
      <AlarmsPanel />
      {state?.stale && <Stale state={state} />}
      {state && overview && <Strip state={state} overview={overview} />}
      {state && (
        <div class="now-grid">
          <div class="column">
            {overview && <FabricPanel overview={overview} state={state} incumbent={current?.incumbent} />}
            {current && <Fidelity of={current} />}
          </div>
          <div class="column">
            <Panel
              id="flows"
              title="Flows by class"
              noteId="window"
              note={`${count(state.reports)} reports over ${seconds(state.duration_s)}${state.stale ? ", stale" : ""}`}
            >
              <Flows state={state} />
            </Panel>
            <Ports state={state} />
            <QueueTable state={state} />
          </div>
        </div>
      )}
    </>
  );
}

// When rollouts of the last hour set switches, by the gains that are measured of them, and the steps of the newest.
function useHourOfRollouts(newest: ListedRollout | undefined): string[] {
  const since = useSince(RANGES[0] as Range);
  const gains = useKept<Gains>(newest ? looks.gains(since) : null).value?.gains ?? [];
  const steps = newest && !dry(newest) ? newest.phases.filter(({ phase }) => phase === "canary" || phase === "rolling_back") : [];
  return [...gains.filter(({ recommendation }) => recommendation !== newest?.recommendation), ...steps].map(({ at }) => at);
}

function Stale({ state }: { state: State }) {
  const at = useMemo(() => when(new Date(clock() - 1000 * (state.age_s ?? 0)).toISOString()), [state]);
  return <p id="stale" class="notice" role="alert">Telemetry is silent: what is shown of the network is as of {at}.</p>;
}

export const now: View = { path: "now", name: "Now", component: Now };
