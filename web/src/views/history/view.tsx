// History: what rollouts gained, what advice was worth, rollouts, rounds and who decided, how far the twin was off, what ports did, past alarms.
import type { View } from "../../views.ts";
import { PastAlarmsPanel } from "./alarms.tsx";
import { GainsPanel } from "./gains.tsx";
import { QueuesPanel } from "./queues.tsx";
import { ResidualPanel } from "./residuals.tsx";
import { RolloutsPanel } from "./rollouts.tsx";
import { RoundsPanel } from "./rounds.tsx";
import { ShadowPanel } from "./shadow.tsx";

function History() {
  return (
    <>
      <h1 class="unseen">History</h1>
      <GainsPanel />
      <ShadowPanel />
      <RolloutsPanel />
      <RoundsPanel />
      <div class="grid">
        <ResidualPanel />
        <PastAlarmsPanel />
      </div>
      <QueuesPanel />
    </>
  );
}

export const history: View = { path: "history", name: "History", component: History };
