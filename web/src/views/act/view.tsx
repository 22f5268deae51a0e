// Act: decide on the recommendation, watch its rollout, take it back, freeze switches.
import { Panel } from "../../parts/panel.tsx";
import { Origin, Pushed } from "../../recommendation/remarks.tsx";
import { useCurrent } from "../../service/current.ts";
import { Decision } from "../now/advice.tsx";
import { address } from "../../router.ts";
import type { View } from "../../views.ts";
import { DecisionPanel } from "./decide.tsx";
import { FreezePanel } from "./freeze.tsx";
import { RolloutPanel } from "./rollout.tsx";
import { SwitchesPanel } from "./switches.tsx";

function Act() {
  const current = useCurrent().value;
  return (
    <>
      <h1 class="unseen">Act</h1>
      <div class="act-grid">
        {current ? (
          <Panel id="recommendation" title="Recommendation" class="hero" note={<Decision of={current} />}>
            <DecisionPanel of={current} />
            <Pushed of={current} />
            <div class="split bottom">
              <a href={address("why", current.id)}>What stands behind it</a>
              <Origin of={current} />
            </div>
          </Panel>
        ) : (
          <Panel id="no-recommendation" title="Nothing to decide">
            <p>No round has been run yet. Once there is a recommendation it is approved or rejected here.</p>
          </Panel>
        )}
        <FreezePanel />
      </div>
      <RolloutPanel />
      <SwitchesPanel />
    </>
  );
}

export const act: View = { path: "act", name: "Act", component: Act };
