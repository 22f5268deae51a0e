// History: rounds and who decided, what they gained, rollouts, how far the twin was off, what ports did, alarms that were.
import type { View } from "../../views.ts";
import { PastAlarmsPanel } from "./alarms.tsx";
import { GainsPanel } from "./gains.tsx";
import { QueuesPanel } from "./queues.tsx";
import { ResidualPanel } from "./residuals.tsx";
import { RolloutsPanel } from "./rollouts.tsx";
import { RoundsPanel } from "./rounds.tsx";

function History() {
  return (
    <>
      <h1 class="unseen">History</h1>
      <RoundsPanel />
      <GainsPanel />
      <RolloutsPanel />
      <div class="grid">
        <ResidualPanel />
        <PastAlarmsPanel />
      </div>
      <QueuesPanel />
    </>
  );
}

export const history: View = { path: "history", name: "History", component: History };
