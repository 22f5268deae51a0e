// Every candidate by what small messages and bulk traffic get, or by queue and throughput: which are on the front, what
// runs, the winner, where the second engine sees the best few, lines of equal gain, and all of them in a table.
import { useState } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { front } from "../../parts/scale.ts";
import { type Dot, type Group, type Level, Scatter } from "../../parts/scatter.tsx";
import { Table } from "../../parts/table.tsx";
import type { Scale } from "../../parts/scale.ts";
import { bytes, count, gain, gbps, percent, ratio, sameWatermark, score, seconds, spelled, watermark } from "../../format.ts";
import { worth } from "../../recommendation/figures.ts";
import type { Candidate, Figure, Prediction, Recommendation } from "../../service/documents.ts";
import { type CandidateAxis, acrossAxes, ofNow, ranWhole, sharesIn, standing, upAxes, wholeWindow } from "./axes.ts";
import { foundBy } from "./found.ts";
import { isoGain, levels, persistentShare, sharesByFigures } from "./frontier.ts";
import { TERMS } from "./terms.ts";

export function CandidatePanel({ of: round }: { of: Recommendation }) {
  const [across, up] = [acrossAxes(round), upAxes(round)];
  const [x, takeX] = useState("");
  const [y, takeY] = useState("");
  const [log, logarithmic] = useState(true);
  const [right, above] = [across.find(({ key }) => key === x) ?? across[0], up.find(({ key }) => key === y) ?? up[0]];
  if (round.candidates.length === 0 || !right || !above) return null;
  return (
    <Panel id="candidates" title="Every candidate" note={`${count(round.candidates.length)} tried`}>
      <div class="row fields">
        <Choice name="Up" of={up} value={above.key} onTake={takeY} />
        <Choice name="Across" of={across} value={right.key} onTake={takeX} />
        {right.log && !right.share && (
          <label class="field">
            <input type="checkbox" checked={log} onChange={(event) => logarithmic(event.currentTarget.checked)} />
            Logarithmic
          </label>
        )}
      </div>
      <Drawn round={round} right={right} above={above} log={right.share || (log && (right.log ?? false))} />
    </Panel>
  );
}

function Choice({ name, of, value, onTake }: { name: string; of: readonly CandidateAxis[]; value: string; onTake: (key: string) => void }) {
  return (
    <label class="field">
      {name}
      <select value={value} onChange={(event) => onTake(event.currentTarget.value)}>
        {of.map((axis) => <option key={axis.key} value={axis.key}>{axis.name}</option>)}
      </select>
    </label>
  );
}

const runs = (round: Recommendation) => (standing(round) ? "runs now" : "ran before");
const GROUPS = (now: string, second: string): Record<string, Group> => ({
  short: { name: "dropped early, on a part of the window", shape: "ring", ink: "quiet" },
  whole: { name: "ran the whole window", shape: "dot", ink: "quiet" },
  front: { name: "on the front", shape: "square", ink: "third" },
  now: { name: now, shape: "diamond", ink: "old", label: now },
  stays: { name: `${now}, and stays`, shape: "star", ink: "new", label: `${now}, and stays` },
  winner: { name: "recommended", shape: "star", ink: "new", label: "recommended" },
  second: { name: second, shape: "triangle", ink: "fourth" },
});

function Drawn({ round, right, above, log }: { round: Recommendation; right: CandidateAxis; above: CandidateAxis; log: boolean }) {
  const whole = wholeWindow(round);
  const groups = GROUPS(runs(round), `by ${round.second_opinion?.engine ?? "the second engine"} alone`);
  const comparable = right.everyone === true && above.everyone === true;
  const usable = round.candidates.flatMap((one) => {
    const [x, y] = [right.of(one), above.of(one)];
    return x === null || y === null || one.score === null || (!comparable && !ranWhole(one, whole)) ? [] : [{ one, x, y }];
  });
  const best = front(usable);
  const kind = (one: Candidate, place: number) => {
    const [now, winner] = [sameWatermark(one, round.incumbent), sameWatermark(one, round.recommendation)];
    if (now) return winner ? "stays" : "now";
    if (winner) return "winner";
    return best.includes(place) ? "front" : ranWhole(one, whole) ? "whole" : "short";
  };
  const parts = right.share && above.share ? round.policy : null;
  const checked = parts ? bySecond(round) : [];
  const dots: Dot[] = [
    ...usable.map(({ one, x, y }, place) => ({ x, y, group: kind(one, place) })),
    ...checked.map(({ one, x, y }) => {
      const mean = usable.find((other) => sameWatermark(other.one, one));
      return { x, y, group: "second", ...(mean ? { from: mean } : {}) };
    }),
  ];
  const gains = usable.flatMap(({ one }) => (one.gain ? [(one.gain.bulk ?? 0) + (one.gain.delay ?? 0)] : []));
  const left = round.candidates.length - usable.length;
  return (
    <>
      <Scatter
        id="scatter"
        label={`${usable.length} candidates by ${right.name} and ${above.name}; better is up and left.`}
        x={{ name: right.name, show: right.show, log }}
        y={above}
        dots={dots}
        groups={groups}
        front={best}
        {...(parts ? { levels: { name: `equal gain (${parts.name}) while pauses and losses stay`, within: (across: Scale, up: Scale) => drawnLevels(round, gains, across, up) } } : {})}
        tell={(place) => {
          const other = checked[place - usable.length];
          if (other) return <><b>{spelled(other.one)}</b> by {round.second_opinion?.engine} alone: bulk speed {ofNow(other.y)} of now, small-message delay {ofNow(other.x)} of now.</>;
          const found = usable[place];
          return found && <Told one={found.one} kind={groups[dots[place]?.group ?? ""]?.label} whole={whole} round={round} />;
        }}
      />
      {left > 0 && (
        <p class="quiet">
          {count(left)} {left === 1 ? "is" : "are"} left out: {comparable ? "the twin could not predict them." : "they ran a part of the window only, and these figures compare over all of it."}
        </p>
      )}
      <AllCandidates round={round} whole={whole} />
    </>
  );
}

// Where the second engine alone sees the best few.
function bySecond(round: Recommendation): { one: Prediction; x: number; y: number }[] {
  const [incumbent, ...rest] = round.second_opinion?.candidates ?? [];
  if (!incumbent) return [];
  const persistent = persistentShare(round);
  return rest.flatMap(({ second: one }) => {
    const { bulk, delay } = sharesByFigures(one, incumbent.second, persistent, round.policy);
    return bulk === null || delay === null ? [] : [{ one, x: delay, y: bulk }];
  });
}

function drawnLevels({ policy }: Recommendation, gains: readonly number[], across: Scale, up: Scale): Level[] {
  if (!policy) return [];
  return levels(gains).flatMap((level) => {
    const line = isoGain(level, policy, across, up);
    return line ? [{ ...line, label: level > 0 ? `+${gain(level)}` : gain(level), strong: level === 0 }] : [];
  });
}

function Told({ one, kind, whole, round }: { one: Candidate; kind: string | undefined; whole: number; round: Recommendation }) {
  const terms = Object.entries(one.terms).flatMap(([name, value]) =>
    value === null ? [] : [`${(TERMS[name] ?? name).toLowerCase()} ${value.toFixed(2)}`],
  );
  const parts = sharesIn(round)?.(one);
  return (
    <>
      <b>{kind ? `${kind[0]?.toUpperCase()}${kind.slice(1)}: ` : ""}{spelled(one)}</b> ·{" "}
      {parts ? (
        <>gain {worth(one, "gain")}: bulk speed {share(parts.bulk)}, small-message delay {share(parts.delay)} · score {score(one.score_normalised)}</>
      ) : (
        <>score {score(one.score)}</>
      )}
      {terms.length > 0 && ` (${terms.join(", ")})`} · mean queue {bytes(one.queue_mean_bytes)}, 99 % {bytes(one.queue_p99_bytes)} ·
      goodput {gbps(one.goodput_gbps)} · mice 99 % {ratio(one.slowdown.mice.p99)}, elephants {ratio(one.slowdown.elephant.mean)} ·
      marked {percent(one.marked_fraction)} · {foundBy(one)}
      {!ranWhole(one, whole) && `; dropped after ${seconds(one.window_s)} of ${seconds(whole)}`}
      {one.seeds > 1 && `; ${one.seeds} seeds`}
      {sameWatermark(one, round.improvement.best) && !kind && `; the best by ${parts ? "gain" : "score"}`}
    </>
  );
}

const optional = (value: Figure) => (value === null ? "–" : ofNow(value));
const share = (value: Figure) => (value === null ? "not known" : `${ofNow(value)} of now`);

function AllCandidates({ round, whole }: { round: Recommendation; whole: number }) {
  const [open, show] = useState(false);
  const terms = Object.keys(round.candidates[0]?.terms ?? {});
  const parts = sharesIn(round);
  return (
    <details onToggle={(event) => show(event.currentTarget.open)}>
      <summary>As a table</summary>
      {open && (
        <Table
          caption={`All ${round.candidates.length} candidates, the best first`}
          rows={round.candidates}
          keyOf={(one) => watermark(one) + one.kmin_bytes + one.kmax_bytes + one.pmax}
          text={(one) => `${watermark(one)} ${foundBy(one)}`}
          columns={[
            {
              name: "Kmin / Kmax / Pmax",
              cell: (one) => (
                <>
                  {watermark(one)}
                  {sameWatermark(one, round.incumbent) && <span class="tag">{runs(round)}</span>}
                  {sameWatermark(one, round.recommendation) && <span class="tag">recommended</span>}
                </>
              ),
              by: (one) => one.kmin_bytes,
            },
            ...(parts
              ? [
                  { name: "Gain", cell: (one: Candidate) => worth(one, "gain"), by: (one: Candidate) => one.score },
                  { name: "Bulk speed, share of now", cell: (one: Candidate) => optional(parts(one).bulk), by: (one: Candidate) => parts(one).bulk },
                  { name: "Delay, share of now", cell: (one: Candidate) => optional(parts(one).delay), by: (one: Candidate) => parts(one).delay },
                ]
              : []),
            { name: parts ? "Score, min–max" : "Score", cell: (one) => score(parts ? one.score_normalised : one.score) },
            ...terms.map((name) => ({ name: TERMS[name] ?? name, cell: (one: Candidate) => score(one.terms[name]) })),
            { name: "Mean queue", cell: (one) => bytes(one.queue_mean_bytes), by: (one) => one.queue_mean_bytes },
            { name: "99 % queue", cell: (one) => bytes(one.queue_p99_bytes), by: (one) => one.queue_p99_bytes },
            { name: "Goodput", cell: (one) => gbps(one.goodput_gbps), by: (one) => one.goodput_gbps },
            { name: "Elephants, mean", cell: (one) => ratio(one.slowdown.elephant.mean), by: (one) => one.slowdown.elephant.mean },
            { name: "Mice, 99 %", cell: (one) => ratio(one.slowdown.mice.p99), by: (one) => one.slowdown.mice.p99 },
            { name: "Small message, 99 %", cell: (one) => ratio(one.probe_slowdown?.p99), by: (one) => one.probe_slowdown?.p99 ?? null },
            { name: "Marked", cell: (one) => percent(one.marked_fraction), by: (one) => one.marked_fraction },
            { name: "Window", cell: (one) => seconds(one.window_s), tone: (one) => (ranWhole(one, whole) ? "" : "absent") },
            { name: "Seeds", cell: (one) => count(one.seeds) },
            { name: "From", cell: foundBy, words: true },
          ]}
        />
      )}
    </details>
  );
}
