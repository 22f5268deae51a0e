// What would be changed: what runs, what the tuner would run instead, what that is worth, and what stands behind it.
import { Answer } from "../../parts/answer.tsx";
import { Figure, Figures } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Status, type Tone } from "../../parts/status.tsx";
import { change, comparedBy } from "../../recommendation/figures.ts";
import { supportSaid } from "../../recommendation/support.ts";
import { Notes, Urgent } from "../../recommendation/remarks.tsx";
import { WatermarkChange, wasOf } from "../../recommendation/watermark-change.tsx";
import { address } from "../../router.ts";
import { roundSaid } from "../../shell/round-words.ts";
import { round } from "../../shell/round.ts";
import type { Readiness, Recommendation, ListedRollout } from "../../service/documents.ts";
import { decision, percent } from "../../format.ts";
import { Time } from "../../parts/time.tsx";
import { advised, approvedWith, outdated } from "./advice-words.ts";

const TONES: Record<string, Tone> = { pending: "busy", approved: "good", rejected: "bad", rolled_back: "back", expired: "warning" };
const GAINS = ["Mice, 99 % slowdown", "Small message, 99 % slowdown", "Elephants, mean slowdown", "Mean queue", "99th percentile queue"];

export function Decision({ of }: { of: Recommendation }) {
  const blocked = of.status === "pending" && (of.blocked?.length ?? 0) > 0;
  return (
    <Status id="decision" tone={blocked ? "warning" : (TONES[of.status] ?? "plain")}>
      {blocked ? "cannot be approved now" : decision(of.status)}
    </Status>
  );
}

interface Props {
  current: Recommendation | undefined;
  newest: ListedRollout | undefined;
  readiness: Readiness | undefined;
}

export function Advice({ current, newest, readiness }: Props) {
  if (!current) return readiness?.measured ? <NotYet readiness={readiness} /> : null;
  const { recommendation: better, incumbent: now, support } = current;
  const old = outdated(current, newest);
  const { answer, tone } = advised(current, old);
  const joint = approvedWith(current);
  return (
    <Panel id="recommendation" title="What would be changed?" class={`statement ${tone}`} note={!old && <Decision of={current} />}>
      <Answer id="advised" tone={tone}>{answer}</Answer>
      <WatermarkChange id="watermark" now={now} better={joint?.watermark ?? better} was={old ? "then" : wasOf(current)} />
      {old && newest && <p id="outdated">Switches run something else since <Time at={newest.since} />. What follows is from before.</p>}
      {support && <p id="support">{supportSaid(support)}</p>}
      {support?.changed && <p id="changed" class="quiet">Given since traffic changed: {support.changed}</p>}
      {joint ? <Sentence id="joint">{joint.sentence}</Sentence> : current.changes ? <Gains of={current} /> : <Sentence id="why">{current.why}</Sentence>}
      {current.advice && <p id="moment" class={current.advice.watermark ? "" : "quiet"}><b>Since then</b> (<Time at={current.advice.at} />{typeof current.advice.version === "number" && `, version ${current.advice.version}`}): {current.advice.why}</p>}
      <Urgent of={current} />
      <div class="split bottom">
        <div class="row">
          {current.status === "pending" && <a class="button primary" href={address("act")}>Review and act</a>}
          {current.rollout && <a class="button" href={address("act")}>See its rollout</a>}
          <a class="button" href={address("why", current.id)}>Why</a>
        </div>
        <p class="quiet">{support && support.rounds > 1 ? <>newest round <Time at={support.last} /></> : <Time at={current.created} />}</p>
      </div>
      <details>
        <summary>More on it</summary>
        {current.changes && <Sentence id="why">{current.why}</Sentence>}
        <Notes of={current} />
      </details>
    </Panel>
  );
}

function Gains({ of: { incumbent: now, recommendation: better, improvement: { margin }, policy, score_is: by } }: { of: Recommendation }) {
  const rows = comparedBy(by).filter((one) => GAINS.includes(one.name) && one.pick(now) !== null && one.pick(better) !== null);
  return (
    <section aria-labelledby="gain-title">
      <h3 id="gain-title">Predicted: what gets better, and what gets worse</h3>
      {by === "gain" && <p class="quiet">By the {policy?.name} policy; a change is advised from {percent(margin)} on.</p>}
      <Figures id="gain">
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
    <Panel id="no-recommendation" title="What would be changed?" class="statement plain">
      <Answer id="advised" tone={round.value ? "busy" : "plain"}>{round.value ? "A round is under way" : "No round has been run yet"}</Answer>
      {round.value ? (
        <p>{roundSaid(round.value)} Its answer appears here by itself.</p>
      ) : (
        <p>The network is measured. <b>Tune now</b> runs a round on what the window holds: it changes nothing by itself.</p>
      )}
      {readiness.reasons.length > 0 && <p class="quiet">The service says: {readiness.reasons.join(" ")}</p>}
    </Panel>
  );
}
