// Act: decide on the recommendation, watch its rollout, take it back, freeze switches.
import { Panel } from "../../parts/panel.tsx";
import { Origin, Pushed } from "../../recommendation/remarks.tsx";
import { useCurrent } from "../../service/current.ts";
import { Time } from "../../parts/time.tsx";
import { Decision } from "../now/advice.tsx";
import { asItStands } from "../now/advice-words.ts";
import { address } from "../../router.ts";
import { round } from "../../shell/round.ts";
import type { Rollouts } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import type { View } from "../../views.ts";
import { DecisionPanel } from "./decide.tsx";
import { FreezePanel } from "./freeze.tsx";
import { RolloutPanel } from "./rollout.tsx";
import { SwitchesPanel } from "./switches.tsx";

function Act() {
  const newest = useLive<Rollouts>(looks.newestRollout).value?.rollouts[0];
  const given = useCurrent().value;
  const current = given && asItStands(given, newest);
  const toDecide = !newest || (newest.ended && current?.status === "pending");
  const deciding = (
    <div class="act-grid" key="deciding">
      {current ? (
        <Panel id="recommendation" title="Recommendation" class="hero" note={<Decision of={current} />}>
          {current.status === "outdated" && newest && (
            <p id="outdated">Switches run something else since <Time at={newest.since} />: what follows is from before, and the next round looks at what runs now.</p>
          )}
          <DecisionPanel of={current}>
            <Pushed of={current} />
            <p><a href={address("why", current.id)}>Why this is recommended</a></p>
            <Origin of={current} />
          </DecisionPanel>
        </Panel>
      ) : (
        <Panel id="no-recommendation" title="Nothing to decide">
          <p>{round.value ? "A first round is under way." : "No round has been run yet."} Once there is a recommendation it is approved or rejected here.</p>
        </Panel>
      )}
      <FreezePanel />
    </div>
  );
  const rollout = newest && <RolloutPanel key="rollout" of={newest} />;
  return (
    <>
      <h1 class="unseen">Act</h1>
      {toDecide ? [deciding, rollout] : [rollout, deciding]}
      <SwitchesPanel />
    </>
  );
}

export const act: View = { path: "act", name: "Act", component: Act };
