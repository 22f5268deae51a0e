// Why: what stands behind a recommendation, the current one or #/why/{id}.
import { Panel } from "../../parts/panel.tsx";
import { Refusal, Sentence } from "../../parts/sentence.tsx";
import { Comparison } from "../../recommendation/comparison.tsx";
import { MarkingCurve } from "../../recommendation/marking-curve.tsx";
import { Remarks } from "../../recommendation/remarks.tsx";
import { QueueTrajectories } from "../../recommendation/trajectories.tsx";
import { WatermarkChange } from "../../recommendation/watermark-change.tsx";
import { address } from "../../router.ts";
import { useCurrent } from "../../service/current.ts";
import type { Readiness, Recommendation, Rollouts } from "../../service/documents.ts";
import { type Live, useKept, useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { Decision } from "../now/advice.tsx";
import { asItStands } from "../now/advice-words.ts";
import type { View } from "../../views.ts";
import { standing } from "./axes.ts";
import { CandidatePanel } from "./candidates.tsx";
import { GainPanel } from "./gain.tsx";
import { OpinionPanel } from "./opinion.tsx";
import { OriginPanel } from "./origin.tsx";
import { OutcomePanel } from "./outcome.tsx";
import { PathsPanel } from "./paths.tsx";
import { ScorePanel } from "./score.tsx";
import { TogetherPanel } from "./together.tsx";

function useWanted(id: string | undefined): Pick<Live<Recommendation>, "value" | "problem"> & { awaited: boolean } {
  const readiness = useLive<Readiness>(looks.readiness);
  const current = useCurrent();
  const wanted = id ?? current.value?.id;
  const { value, problem, awaited } = useKept<Recommendation>(wanted === undefined ? null : looks.recommendation(wanted));
  if (wanted !== undefined) return { value, problem, awaited };
  const why = readiness.value ? current.problem : readiness.problem;
  return { value: undefined, problem: why?.status === 404 ? null : why, awaited: !why && readiness.value?.advice !== null };
}

function Why({ rest: [id] }: { rest: readonly string[] }) {
  const newest = useLive<Rollouts>(looks.newestRollout).value?.rollouts[0];
  const { value, problem, awaited } = useWanted(id);
  if (!value && awaited) return <><h1 class="unseen">Why</h1><p class="quiet waiting" role="status">Reading…</p></>;
  if (!value) return <Absent id={id} problem={problem} />;
  const found = asItStands(value, newest);
  const { incumbent: now, recommendation: better, trajectories } = found;
  const was = standing(found) ? "now" : "before";
  return (
    <>
      <h1 class="unseen">Why</h1>
      <div class="grid">
        <Panel id="recommendation" title={id === undefined ? "Recommendation" : `Recommendation ${id}`} class="hero" note={<Decision of={found} />}>
          <WatermarkChange now={now} better={better} was={was} />
          <Sentence id="why">{found.why}</Sentence>
          {found.remarks.map((remark) => <p key={remark} class="quiet">{remark}</p>)}
          <Remarks of={found} />
          <div class="row">
            {found.changes && <a class="button" href={address("whatif")}>Try others</a>}
            {found.status === "pending" && <a class="button primary" href={address("act")}>Review and act</a>}
          </div>
        </Panel>
        <Panel id="marking" title="Marking curve">
          <MarkingCurve now={now} better={better} was={was} />
        </Panel>
      </div>
      <div class="grid">
        <Panel id="compared" title="What the twin predicts">
          <Comparison id="compare" caption="Predictions" now={now} better={better} by={found.score_is} names={[was === "now" ? "Now" : "Before", "Recommended"]} />
        </Panel>
        {found.score_is === "gain" ? <GainPanel of={found} /> : <ScorePanel of={found} />}
      </div>
      <CandidatePanel of={found} />
      <div class="grid">
        <Panel id="depths" title="Predicted queues over the window">
          {trajectories ? (
            <QueueTrajectories
              id="trajectories"
              was={was}
              step_s={trajectories.step_s}
              queues={trajectories.queues.map((one) => ({ ...one, now: one.incumbent_bytes, better: one.recommended_bytes }))}
            />
          ) : (
            <p class="quiet">This recommendation has none; its notes say why where it could have had some.</p>
          )}
        </Panel>
        <OutcomePanel of={found} />
      </div>
      <OpinionPanel of={found} />
      <TogetherPanel of={found} />
      <PathsPanel of={found} />
      <OriginPanel of={found} />
    </>
  );
}

function Absent({ id, problem }: { id: string | undefined; problem: Live<Recommendation>["problem"] }) {
  const none = problem?.status === 404;
  return (
    <>
      <h1 class="unseen">Why</h1>
      <Panel id="no-recommendation" title={none ? "No such recommendation" : problem ? "It cannot be read" : "No recommendation yet"}>
        {none ? (
          <p>There is none of the id <code>{id}</code>, or it is older than what is kept. <a href={address("history")}>See those that are there.</a></p>
        ) : problem ? (
          <Refusal problem={problem} />
        ) : (
          <p>Once a round has been run, what stands behind its answer is shown here: every candidate, the gain, the marking curve and the queues to expect.</p>
        )}
      </Panel>
    </>
  );
}

export const why: View = { path: "why", name: "Why", component: Why };
