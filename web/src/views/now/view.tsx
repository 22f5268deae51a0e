// Now: the network as the window shows it, what is wrong, and what the tuner would change.
import { useMemo } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import type { Readiness, State } from "../../service/documents.ts";
import { useCurrent } from "../../service/current.ts";
import { away, now as clock } from "../../service/client.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, seconds } from "../../format.ts";
import type { View } from "../../views.ts";
import { AlarmsPanel } from "./alarms.tsx";
import { Advice } from "./advice.tsx";
import { Empty } from "./empty.tsx";
import { FabricPanel } from "./fabric.tsx";
import { Fidelity } from "./fidelity.tsx";
import { Flows } from "./flows.tsx";
import { Ports } from "./ports.tsx";
import { QueueTable } from "./queues.tsx";
import { Strip } from "./strip.tsx";

function Now() {
  const readiness = useLive<Readiness>(looks.readiness).value;
  const state = useLive<State>(readiness?.measured ? looks.state : null).value;
  const current = useCurrent().value;
  return (
    <>
      <h1 class="unseen">Now</h1>
      <AlarmsPanel />
      {!readiness && !away.value && <p class="quiet waiting" role="status">Reading what the network does…</p>}
      {readiness && !readiness.measured && !current && <Empty reasons={readiness.reasons} />}
      {state?.stale && <Stale state={state} />}
      {state && <Strip state={state} />}
      <div class="now-grid">
        {state && (
          <div class="column">
            <FabricPanel state={state} incumbent={current?.incumbent} />
            <QueueTable state={state} />
          </div>
        )}
        <div class="column first">
          <Advice current={current} readiness={readiness} />
          {state && (
            <Panel
              id="flows"
              title="Flows by class"
              noteId="window"
              note={`${count(state.reports)} reports over ${seconds(state.duration_s)}${state.stale ? ", stale" : ""}`}
            >
              <Flows state={state} />
            </Panel>
          )}
          {current && <Fidelity of={current} />}
        </div>
      </div>
      {state && <Ports state={state} />}
    </>
  );
}

function Stale({ state }: { state: State }) {
  const at = useMemo(() => new Date(clock() - 1000 * (state.age_s ?? 0)).toLocaleTimeString(), [state]);
  return <p id="stale" class="notice" role="alert">Telemetry is silent: what is shown of the network is as of {at}.</p>;
}

export const now: View = { path: "now", name: "Now", component: Now };
