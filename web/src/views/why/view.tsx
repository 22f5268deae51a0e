// Why: what stands behind a recommendation, the current one or #/why/{id}.
import { Panel } from "../../parts/panel.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Status } from "../../parts/status.tsx";
import { Comparison } from "../../recommendation/comparison.tsx";
import { Origin, Remarks } from "../../recommendation/remarks.tsx";
import { WatermarkChange } from "../../recommendation/watermark-change.tsx";
import { useCurrent } from "../../service/current.ts";
import type { Recommendation } from "../../service/documents.ts";
import { type Live, useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { DECISIONS } from "../../format.ts";
import { CandidateChart } from "./candidates.tsx";
import { MarkingCurve } from "./curve.tsx";
import type { View } from "../../views.ts";

function useWanted(id: string | undefined): Live<Recommendation> {
  const current = useCurrent();
  const asked = useLive<Recommendation>(id === undefined ? null : looks.recommendation(id));
  return id === undefined ? current : asked;
}

function Why({ rest: [id] }: { rest: readonly string[] }) {
  const { value: found, problem } = useWanted(id);
  if (!found) return <h1>{problem?.status === 404 ? "No such recommendation" : "No recommendation yet"}</h1>;
  return (
    <>
      <h1 class="unseen">Why</h1>
      <Panel id="recommendation" title="Recommendation" note={<Status id="decision">{DECISIONS[found.status]}</Status>}>
        <WatermarkChange now={found.incumbent} better={found.recommendation} />
        <Sentence id="why">{found.why}</Sentence>
        <Remarks of={found} />
        <Origin of={found} />
      </Panel>
      <div class="grid">
        <Panel id="compared" title="What the twin predicts">
          <Comparison id="compare" caption="Predictions" now={found.incumbent} better={found.recommendation} />
        </Panel>
        <Panel id="marking" title="Marking curve">
          <MarkingCurve now={found.incumbent} better={found.recommendation} />
        </Panel>
      </div>
      <Panel id="candidates" title="Every candidate">
        <CandidateChart of={found} />
      </Panel>
    </>
  );
}

export const why: View = { path: "why", name: "Why", component: Why };
