// What rollouts promised and what came of it: the gain predicted, the gain measured after, and their difference.
import { useState } from "preact/hooks";
import { Chart } from "../../parts/chart.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Status, type Tone } from "../../parts/status.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { address } from "../../router.ts";
import { now } from "../../service/client.ts";
import type { Figure, GainSeen, Gains, ListedRollout, Rollouts } from "../../service/documents.ts";
import { useKept, useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { gain, moment, percent, several, watermark } from "../../format.ts";
import { turnedBack } from "../act/rollout-words.ts";
import { judged } from "../now/helped-words.ts";
import { drawnFrom } from "./range.ts";
import { apart, extent, gainsSaid, policiesOf } from "./gain-series.ts";
import { Past, useRange } from "./picked.tsx";

const NONE = "No rollout of this time has a measured gain. Each one that runs to its end has: whether it helped then stands here.";

export function GainsPanel() {
  const { since, picker } = useRange("quarter", ["week", "quarter"]);
  const gains = useKept<Gains>(looks.gains(since));
  // A service that does not tell them is one without any: that is no error.
  const shown = gains.problem?.status === 404 ? { ...gains, value: { gains: [] }, problem: null } : gains;
  return (
    <Panel id="gains" title="Did it help? Gains predicted and measured" note={picker}>
      <Past of={shown} empty={({ gains: all }) => all.every(({ predicted }) => predicted === null)} none={NONE}>
        {({ gains: all }) => <Picked of={all} since={Date.parse(decodeURIComponent(since)) / 1000} />}
      </Past>
    </Panel>
  );
}

// Gains by two policies weigh differently, so they are not drawn together.
function Picked({ of: all, since }: { of: readonly GainSeen[]; since: number }) {
  const policies = policiesOf(all);
  const [wanted, want] = useState("");
  const policy = policies.find((one) => one === wanted) ?? policies[0] ?? "";
  return (
    <>
      {policies.length > 1 && (
        <label class="field">
          Policy
          <select value={policy} onChange={(event) => want(event.currentTarget.value)}>
            {policies.map((one) => <option key={one}>{one}</option>)}
          </select>
        </label>
      )}
      <Drawn of={all.filter((one) => one.policy === policy)} policy={policy} since={since} />
    </>
  );
}


function Drawn({ of: all, policy, since }: { of: readonly GainSeen[]; policy: string; since: number }) {
  const known = all.filter(({ predicted }) => predicted !== null).reverse();
  const until = now() / 1000;
  const times = known.map(({ at }) => Date.parse(at) / 1000);
  const xs = [drawnFrom(since, Math.min(...times), until), ...times, Math.max(until, ...times)]; // the lines go all the way
  const line = (values: readonly Figure[]) => [null, ...values, null];
  const off = known.map(apart);
  const x = { name: "time", show: moment, time: true, low: xs[0] ?? 0, high: xs.at(-1) ?? 1 };
  const zero = { ink: "quiet", values: xs.map(() => 0) } as const;
  const tell = (index: number) => told(known[index - 1]);
  return (
    <>
      <p>{gainsSaid(known, policy)}</p>
      <Ledger of={all} policy={policy} />
      <div class="grid small-charts">
        <section aria-labelledby="gain-both-title">
          <h3 id="gain-both-title">Gain over what ran</h3>
          <Chart
            id="gain-both"
            label={`Gain of ${several(known.length, "rollout")}, predicted and measured.`}
            x={x}
            xs={xs}
            y={{ name: "gain", show: percent, ...extent(known.flatMap((one) => [[one.predicted, one.predicted_error], [one.measured, one.measured_error]])) }}
            height={230}
            table={false}
            tell={tell}
            series={[
              { name: "what ran", ...zero },
              { name: "predicted ± error", ink: "new", mark: "circle", line: true, size: 7, values: line(known.map((one) => one.predicted)), errors: line(known.map((one) => one.predicted_error)) },
              { name: "measured ± error", ink: "old", mark: "diamond", size: 9, values: line(known.map((one) => one.measured)), errors: line(known.map((one) => one.measured_error)) },
            ]}
          />
        </section>
        {off.some(({ value }) => value !== null) && (
          <section aria-labelledby="gain-apart-title">
            <h3 id="gain-apart-title">Measured less predicted</h3>
            <Chart
              id="gain-apart"
              label="Gain measured less gain predicted, of each rollout."
              x={x}
              xs={xs}
              y={{ name: "measured less predicted", show: percent, ...extent(off.map(({ value, error }) => [value, error])) }}
              height={230}
              table={false}
              tell={tell}
              series={[
                { name: "as predicted", ...zero },
                { name: "difference ± error", ink: "third", mark: "square", size: 8, values: line(off.map(({ value }) => value)), errors: line(off.map(({ error }) => error)) },
              ]}
            />
          </section>
        )}
      </div>
    </>
  );
}

// What each rollout promised, what came of it, and how it ended.
function Ledger({ of: all, policy }: { of: readonly GainSeen[]; policy: string }) {
  const rollouts = useLive<Rollouts>(looks.rollouts).value?.rollouts ?? [];
  const rolloutOf = ({ recommendation: id }: GainSeen) => rollouts.find(({ recommendation }) => recommendation === id);
  return (
    <Table
      id="ledger"
      caption={`Gains for the ${policy} policy, the newest first`}
      rows={all}
      keyOf={({ at, recommendation }) => at + recommendation}
      text={(one) => `${one.recommendation} ${verdict(one, rolloutOf(one)).text} ${one.why ?? ""}`}
      columns={[
        {
          name: "When",
          cell: (one) => (
            <>
              <a href={address("why", one.recommendation)}><Time at={one.at} /></a>
              {(rolloutOf(one)?.why ?? one.why) && <small>{rolloutOf(one)?.why ?? one.why}</small>}
            </>
          ),
          by: (one) => Date.parse(one.at),
        },
        { name: "Did it help?", cell: (one) => <Status tone={verdict(one, rolloutOf(one)).tone} spoken={false}>{verdict(one, rolloutOf(one)).text}</Status>, words: true, by: (one) => verdict(one, rolloutOf(one)).text },
        { name: "Set to", cell: (one) => setTo(rolloutOf(one)), words: true },
        { name: "Predicted", cell: (one) => gain(one.predicted, one.predicted_error), by: (one) => one.predicted },
        { name: "Measured", cell: (one) => gain(one.measured, one.measured_error), by: (one) => one.measured },
        { name: "Measured less predicted", cell: (one) => gain(apart(one).value, apart(one).error), by: (one) => apart(one).value },
      ]}
    />
  );
}

const setTo = (rollout: ListedRollout | undefined) => (rollout?.summary.target ? watermark(rollout.summary.target) : "–");

function verdict(one: GainSeen, rollout: ListedRollout | undefined): { text: string; tone: Tone } {
  if ((rollout && turnedBack(rollout)) || one.why !== null) return { text: "rolled back", tone: "back" };
  const found = judged(one);
  if (!found) return { text: "not measured", tone: "plain" };
  return { text: { good: "yes", critical: "no" }[found.tone as string] ?? "too small to tell", tone: found.tone };
}

function told(one: GainSeen | undefined): string {
  if (!one) return "";
  const measured = one.measured === null ? "not measured" : `measured ${gain(one.measured, one.measured_error)}`;
  const { value, error } = apart(one);
  return `${moment(Date.parse(one.at) / 1000)} · predicted ${gain(one.predicted, one.predicted_error)}, ${measured}${value === null ? "" : `: ${gain(value, error)} apart`}${one.why ? `; ${one.why}` : ""}`;
}
