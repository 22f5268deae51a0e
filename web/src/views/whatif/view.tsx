// What if: three sliders, and what the twin predicts for them on the network as it is now, beside what runs.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { Refusal, Sentence } from "../../parts/sentence.tsx";
import { Status } from "../../parts/status.tsx";
import { Comparison } from "../../recommendation/comparison.tsx";
import { MarkingCurve } from "../../recommendation/marking-curve.tsx";
import { QueueTrajectories } from "../../recommendation/trajectories.tsx";
import { call } from "../../service/client.ts";
import { useCurrent } from "../../service/current.ts";
import type { Readiness, Recommendation, Watermark, WhatIf as Said } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { sameWatermark, seconds } from "../../format.ts";
import type { View } from "../../views.ts";
import { type Answer, Asking, type Wanted } from "./asking.ts";
import { DIALS } from "./dials.ts";
import { Sliders } from "./sliders.tsx";
import { beside } from "./words.ts";

// Answers compare while they are about the same traffic.
const SAME_WINDOW_S = 60;
const FIRST: Watermark = { kmin_bytes: 100_000, kmax_bytes: 400_000, pmax: 0.1 }; // until what runs is known

const ask = ({ mark, curves }: Wanted, stop: AbortSignal): Promise<Said> =>
  call<Said>("/v1/whatif", {
    method: "POST",
    signal: stop,
    body: { watermarks: [mark], trajectories: curves, max_age_s: SAME_WINDOW_S },
  });

function WhatIf() {
  const readiness = useLive<Readiness>(looks.readiness).value;
  const { value: current } = useCurrent();
  return (
    <>
      <h1 class="unseen">What if</h1>
      {readiness?.measured ? <Trial current={current} /> : <Nothing readiness={readiness} />}
    </>
  );
}

function Nothing({ readiness }: { readiness: Readiness | undefined }) {
  if (!readiness) return null;
  return (
    <Panel id="nothing-measured" title="Nothing measured yet">
      <p>What if asks the twin about the traffic that telemetry sees just now, and none has been seen. Once reports come in, you choose a watermark here.</p>
      {readiness.reasons.length > 0 && <p class="quiet">What the service says: {readiness.reasons.join(" ")}</p>}
    </Panel>
  );
}

function Trial({ current }: { current: Recommendation | undefined }) {
  const asking = useMemo(() => new Asking(ask), []);
  const [mark, set] = useState<Watermark | null>(null);
  const [curves, wantCurves] = useState(false);
  const turned = useRef(false);
  const answer = asking.answer.value;
  const now = answer?.incumbent;
  useEffect(() => {
    asking.want({ mark: current ? plain(current.recommendation) : FIRST, curves: false }, true);
    return () => asking.stop();
  }, []);
  useEffect(() => {
    const start = now ?? current?.incumbent; // what ran in the last round, until the twin tells what runs
    if (!turned.current && start && !(mark && sameWatermark(mark, start))) set(plain(start));
  }, [mark, now, current]);
  const turn = (wanted: Watermark) => {
    turned.current = true;
    set(wanted);
    if (curves || !now || !sameWatermark(wanted, now)) asking.want({ mark: wanted, curves });
    else asking.stop(); // it is what runs, and that is predicted with every answer
  };
  const curve = (wanted: boolean) => {
    wantCurves(wanted);
    if (wanted && mark) asking.want({ mark, curves: true }, true);
  };
  const recommended = current && current.status !== "rejected" ? current.recommendation : undefined;
  const shown = useShown(answer, mark);
  return (
    <>
      <div class="try-grid">
        <Panel id="try" title="Try a watermark" note={<State asking={asking} answer={answer} />}>
          {mark ? (
            <Sliders
              mark={mark}
              now={now}
              onTurn={turn}
              starts={[
                ...(now ? [{ name: "What runs", mark: plain(now) }] : []),
                ...(recommended && (!now || !sameWatermark(recommended, now)) ? [{ name: "Recommended", mark: plain(recommended) }] : []),
              ]}
            />
          ) : (
            !asking.problem.value && <p class="quiet">The twin looks at the last window, and at what the switches run…</p>
          )}
          {asking.problem.value && (
            <div class="notice" role="alert">
              <Refusal problem={asking.problem.value} />
              <button class="small" type="button" onClick={() => asking.again()}>Ask again</button>
            </div>
          )}
          <p class="quiet">Nothing is set on any switch from here.</p>
        </Panel>
        {!shown && !asking.problem.value && (
          <Panel id="answer" title="What the twin predicts">
            <p class="quiet">The first prediction takes some seconds; those after it are quicker.</p>
          </Panel>
        )}
        {shown && mark && (
          <Panel id="answer" title="What the twin predicts" class={asking.busy.value ? "stale" : ""} note={<About of={shown} onAgain={() => asking.again()} />}>
            <Predicted of={shown} mark={mark} busy={asking.busy.value} />
          </Panel>
        )}
      </div>
      {mark && now && (
        <div class="grid">
          <Panel id="marking" title="Marking curve">
            <MarkingCurve now={now} better={mark} name="tried" {...reach(now)} />
          </Panel>
          <Panel id="depths" title="Queues over the window">
            <label class="field">
              <input type="checkbox" checked={curves} onChange={(event) => curve(event.currentTarget.checked)} />
              Predict the deepest queues over time too; takes twice as long
            </label>
            {curves && <Curves of={answer} mark={mark} busy={asking.busy.value} />}
          </Panel>
        </div>
      )}
    </>
  );
}

const plain = ({ kmin_bytes, kmax_bytes, pmax }: Watermark): Watermark => ({ kmin_bytes, kmax_bytes, pmax });

// From half of the least that runs or that a slider gives, to its most: the axis stays while a slider moves.
function reach(now: Watermark): { low: number; high: number } {
  const [kmin, kmax] = DIALS;
  return { low: Math.max(500, Math.min(kmin?.low ?? 0, now.kmin_bytes || 1e3)), high: Math.max(kmax?.high ?? 0, 2 * now.kmax_bytes) };
}

// The answer for the watermark on the sliders, or the last one while that is worked out.
function useShown(answer: Answer | null, mark: Watermark | null): Answer | null {
  const last = useRef<Answer | null>(null);
  if (answer && mark) last.current = sameWatermark(mark, answer.incumbent) ? { ...answer, mark, prediction: answer.incumbent } : answer;
  return last.current;
}

function State({ asking, answer }: { asking: Asking; answer: Answer | null }) {
  if (asking.busy.value) return <Status id="asking" tone="busy">predicting…</Status>;
  if (asking.problem.value) return <Status id="asking" tone="bad">no answer</Status>;
  return <Status id="asking" tone="good">{answer ? `answered in ${seconds(answer.said.wall_s)}` : "ready"}</Status>;
}

function About({ of: { said }, onAgain }: { of: Answer; onAgain: () => void }) {
  return (
    <span class="row">
      on the last {seconds(said.window_s)} seen, {said.engine}
      <button class="small" type="button" onClick={onAgain}>Look again</button>
    </span>
  );
}

function Predicted({ of: { incumbent, prediction, said: { score_is: by } }, mark, busy }: { of: Answer; mark: Watermark; busy: boolean }) {
  const current = sameWatermark(prediction, mark);
  return (
    <>
      <Sentence id="beside">
        {!current
          ? "Figures for what the sliders say now are being worked out."
          : prediction.status !== "ok"
            ? `The twin cannot say: ${prediction.status_detail}`
            : sameWatermark(prediction, incumbent)
              ? "This is what runs. Move a slider to see what another watermark would do."
              : beside(incumbent, prediction)}
      </Sentence>
      <div aria-busy={busy}>
        <Comparison id="tried" caption="Predictions beside what runs" now={incumbent} better={current ? prediction : unknown(prediction)} by={by} names={["Now", "Tried"]} />
      </div>
      <p class="quiet">
        {by === "gain"
          ? "The gain is over what runs, by the policy that rounds use, on the traffic of the last window."
          : "The score weighs these two against each other: it does not compare with a round's."}
      </p>
    </>
  );
}

// Its figures as not known: nobody shall take the last answer for this one's.
const unknown = (one: Answer["prediction"]): Answer["prediction"] => ({
  ...one,
  queue_mean_bytes: null,
  queue_p99_bytes: null,
  queue_peak_bytes: null,
  goodput_gbps: null,
  marked_fraction: null,
  loss_bytes: null,
  pfc_pause_s: null,
  probe_slowdown: { n: 0, p50: null, p99: null },
  probe_by_path: {},
  score: null,
  slowdown: Object.fromEntries(Object.entries(one.slowdown).map(([name]) => [name, { n: 0, mean: null, p99: null }])) as Answer["prediction"]["slowdown"],
});

function Curves({ of, mark, busy }: { of: Answer | null; mark: Watermark; busy: boolean }) {
  if (!of || !sameWatermark(of.mark, mark) || (!of.said.trajectories && busy)) return <p class="quiet">Working them out…</p>;
  const { trajectories, notes } = of.said;
  if (!trajectories) return <p class="quiet">{notes.join(" ") || "There are none for this watermark."}</p>;
  return (
    <QueueTrajectories
      id="trajectories"
      name="tried"
      step_s={trajectories.step_s}
      queues={trajectories.queues.flatMap((one) => (one.results_bytes[0] ? [{ ...one, now: one.incumbent_bytes, better: one.results_bytes[0] }] : []))}
    />
  );
}

export const whatIf: View = { path: "whatif", name: "What if", component: WhatIf };
