// What runs, what the tuner would run instead, why in one sentence, and what it is predicted to gain.
import { Figure, Figures } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Status, type Tone } from "../../parts/status.tsx";
import { change, comparedBy } from "../../recommendation/figures.ts";
import { Remarks } from "../../recommendation/remarks.tsx";
import { WatermarkChange } from "../../recommendation/watermark-change.tsx";
import { address } from "../../router.ts";
import { round } from "../../shell/round.ts";
import type { Readiness, Recommendation } from "../../service/documents.ts";
import { DECISIONS, gain, percent, score, when } from "../../format.ts";

const TONES: Record<string, Tone> = { pending: "busy", approved: "good", rejected: "bad", rolled_back: "back", expired: "warning" };
const GAINS = ["Mice, 99 % slowdown", "Probe, 99 % slowdown", "Elephants, mean slowdown", "Mean queue", "99th percentile queue"];

export function Decision({ of }: { of: Recommendation }) {
  const blocked = of.status === "pending" && (of.blocked?.length ?? 0) > 0;
  return (
    <Status id="decision" tone={blocked ? "warning" : (TONES[of.status] ?? "plain")}>
      {blocked ? "cannot be approved now" : (DECISIONS[of.status] ?? of.status)}
    </Status>
  );
}

interface Props {
  current: Recommendation | undefined;
  readiness: Readiness | undefined;
}

export function Advice({ current, readiness }: Props) {
  if (!current) return readiness?.measured ? <NotYet readiness={readiness} /> : null;
  const { recommendation: better, incumbent: now } = current;
  return (
    <Panel id="recommendation" title="Recommendation" class="hero" note={<Decision of={current} />}>
      <WatermarkChange id="watermark" now={now} better={better} {...(current.status === "expired" ? { was: "then" } : {})} />
      <Sentence id="why">{current.why}</Sentence>
      {current.changes && <Gains of={current} />}
      <Remarks of={current} />
      <div class="split bottom">
        <div class="row">
          {current.status === "pending" && <a class="button primary" href={address("act")}>Review and act</a>}
          {current.rollout && <a class="button" href={address("act")}>See its rollout</a>}
          <a class="button" href={address("why", current.id)}>Why</a>
        </div>
        <p class="quiet">{when(current.created)}</p>
      </div>
    </Panel>
  );
}

function Gains({ of: { incumbent: now, recommendation: better, improvement, policy, score_is: by } }: { of: Recommendation }) {
  const rows = comparedBy(by).filter((one) => GAINS.includes(one.name) && one.pick(now) !== null && one.pick(better) !== null);
  return (
    <section aria-labelledby="gain-title">
      <h3 id="gain-title">Predicted: what it gains, and what it costs</h3>
      <Figures id="gain">
        {by === "gain" ? (
          <Figure name={`Gain, ${policy?.name ?? ""} policy`} value={gain(improvement.score_gain, improvement.score_error)} tone="better" beside={`margin ${percent(improvement.margin)}`} />
        ) : (
          <Figure name="Score gained" value={score(improvement.score_gain)} tone="better" beside="min–max of its round" />
        )}
        {rows.map((one) => {
          const { text, tone } = change(one.pick(now), one.pick(better), one);
          return (
            <Figure key={one.name} name={one.name} value={text} tone={tone || undefined} beside={`${one.show(one.pick(now), now)} → ${one.show(one.pick(better), better)}`} />
          );
        })}
      </Figures>
    </section>
  );
}

function NotYet({ readiness }: { readiness: Readiness }) {
  return (
    <Panel id="no-recommendation" title="No recommendation yet">
      {round.value ? (
        <p>A round is under way; its answer appears here by itself.</p>
      ) : (
        <p>The network is measured. <b>Tune now</b> runs a round on what the window holds: it changes nothing by itself.</p>
      )}
      {readiness.reasons.length > 0 && <p class="quiet">What the service says: {readiness.reasons.join(" ")}</p>}
    </Panel>
  );
}
