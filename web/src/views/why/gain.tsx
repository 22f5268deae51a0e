// Why it won: the gain over what runs as one bar of its three parts, its error and the margin, and which draw found it.
import { useRef } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { share, scaleOf, ticks } from "../../parts/scale.ts";
import { Sentence } from "../../parts/sentence.tsx";
import { Table } from "../../parts/table.tsx";
import { useWidth } from "../../parts/width.ts";
import { few, gain, percent, portion, sameWatermark, spelled } from "../../format.ts";
import type { Candidate, GainParts, Policy, Recommendation } from "../../service/documents.ts";
import { incumbentOf, ofNow, sharesIn, standing } from "./axes.ts";
import { amongAlike, foundBy } from "./found.ts";
import type { Shares } from "./frontier.ts";
import { PARTS, type Part, pieces, signedGain, tradedWords } from "./gain-words.ts";
import { Terms } from "./score.tsx";

export function GainPanel({ of: round }: { of: Recommendation }) {
  const { improvement, changes, policy } = round;
  const now = incumbentOf(round);
  const best = round.candidates.find((one) => sameWatermark(one, improvement.best));
  const shares = best && sharesIn(round)?.(best);
  if (!now || !best?.gain || !shares || !policy) return null;
  const other = standing(round) ? "what runs" : "what ran";
  const stays = sameWatermark(best, now);
  const total = gain(improvement.score_gain, improvement.score_error);
  return (
    <Panel id="score" title={changes ? "Why it won" : "Why what runs stays"} note={`${policy.name} policy`}>
      <Sentence id="won">
        {stays
          ? `No candidate gains more than ${other} beyond noise.`
          : changes
            ? `It gains ${total} over ${other}: ${tradedWords(best.gain, shares)}.`
            : `The best candidate, ${spelled(best)}, gains ${total}: ${tradedWords(best.gain, shares)}.`}
      </Sentence>
      {!stays && (
        <>
          <GainBar parts={best.gain} total={improvement.score_gain ?? 0} error={improvement.score_error ?? null} margin={improvement.margin} />
          <Parts now={now} best={best} shares={shares} policy={policy} total={total} />
          <p class="quiet" id="found">
            A change has to gain more than {percent(improvement.margin)} even less two errors.
            {amongAlike(best.origin, improvement.alike ?? 0, changes, other)}
            {` Found by ${foundBy(best)}.`}
          </p>
        </>
      )}
      <details>
        <summary>By the score min–max over the candidates</summary>
        <Terms of={round} />
      </details>
    </Panel>
  );
}

interface PartsProps {
  now: Candidate;
  best: Candidate;
  shares: Shares;
  policy: Policy;
  total: string;
}

function Parts({ now, best, shares, policy, total }: PartsProps) {
  const pair = (name: string, before: number | null | undefined, after: number | null | undefined) =>
    before == null || after == null ? [] : [`${name} ${portion(before)} → ${portion(after)}`];
  const harmed = [now.paused_share, best.paused_share, now.loss_share, best.loss_share];
  const harm = harmed.every((value) => value === 0)
    ? "none"
    : [...pair("paused", now.paused_share, best.paused_share), ...pair("lost", now.loss_share, best.loss_share)].join(", ");
  const ofNowText = (value: number | null) => (value === null ? "not known" : `${ofNow(value)} of now`);
  const rows: { part: Part | "total"; beside: string; weight: string }[] = [
    { part: "bulk", beside: ofNowText(shares.bulk), weight: few(policy.bulk) },
    { part: "delay", beside: ofNowText(shares.delay), weight: few(policy.delay) },
    { part: "harm", beside: harm || "not known", weight: `× ${few(policy.harm_price)}` },
    { part: "total", beside: "", weight: "" },
  ];
  const value = (part: Part | "total") => (part === "total" ? null : best.gain?.[part] ?? null);
  return (
    <Table
      id="terms"
      caption="Parts of the gain"
      rows={rows}
      keyOf={({ part }) => part}
      tall
      columns={[
        { name: "Part", cell: ({ part }) => (part === "total" ? <b>Gain</b> : <><i class={`chip ${INKS[part]}`} />{PARTS[part]}</>) },
        { name: "Beside now", cell: ({ beside }) => beside },
        { name: "Weight", cell: ({ weight }) => weight },
        {
          name: "Adds",
          cell: ({ part }) => (part === "total" ? <b>{total}</b> : signedGain(value(part))),
          tone: ({ part }) => (Math.abs(value(part) ?? 0) < 0.0005 ? "" : (value(part) ?? 0) > 0 ? "better" : "worse"),
        },
      ]}
    />
  );
}

const INKS: Record<Part, string> = { bulk: "ink-fourth", delay: "ink-third", harm: "ink-bad" };
const [SIDE, TOP, BAR, TOTAL, AXIS, HEIGHT] = [20, 20, 26, 62, 78, 100];

interface BarProps {
  parts: GainParts;
  total: number;
  error: number | null;
  margin: number;
}

function GainBar({ parts, total, error, margin }: BarProps) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const found = pieces(parts);
  const off = 2 * (error ?? 0);
  const scale = scaleOf([0, margin, total - off, total + off, ...found.map(({ to }) => to)], false);
  const px = (value: number) => SIDE + (width - 2 * SIDE) * share(scale, value);
  const said = found.map(({ part, from, to }) => `${PARTS[part].toLowerCase()} ${signedGain(to - from)}`).join(", ");
  const middle = TOP + BAR / 2 + 4;
  return (
    <div ref={box} class="gain-bar" id="gain-bar">
      <div role="img" aria-label={`The gain from what runs at 0: ${said}; together ${gain(total, error)}, margin ${percent(margin)}.`}>
      <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
        <g class="scale">
          {ticks(scale, Math.max(2, Math.floor(width / 62))).map((value) => (
            <g key={value}>
              <line x1={px(value)} x2={px(value)} y1={TOP} y2={AXIS + 4} />
              <text x={px(value)} y={HEIGHT - 4} text-anchor="middle">{signedGain(value)}</text>
            </g>
          ))}
        </g>
        {found.map(({ part, from, to }) => {
          const [left, wide] = [px(Math.min(from, to)), Math.abs(px(to) - px(from))];
          return <rect key={part} class={INKS[part]} x={left} y={TOP} width={Math.max(1, wide - 1)} height={BAR} fill="currentColor" />;
        })}
        <path class="zero" d={`M${px(0)} ${TOP - 6}V${AXIS + 4}`} />
        <path class="margin" d={`M${px(margin)} ${TOP - 6}V${AXIS + 4}`} />
        <g class="ink-new total">
          <path d={`M${px(0)} ${TOTAL}H${px(total)}`} />
          {error !== null && <path class="thin" d={`M${px(total - off)} ${TOTAL}H${px(total + off)}M${px(total - off)} ${TOTAL - 5}v10M${px(total + off)} ${TOTAL - 5}v10`} />}
          {error !== null && <path class="thick" d={`M${px(total - error)} ${TOTAL}H${px(total + error)}`} />}
          <circle cx={px(total)} cy={TOTAL} r="5" fill="currentColor" />
        </g>
        {/* Names come last, so that nothing lies over them. */}
        {found.map(({ part, from, to }) => {
          const [wide, text] = [Math.abs(px(to) - px(from)), signedGain(to - from)];
          return wide > 12 + 7 * text.length && (
            <g key={part} class={INKS[part]}>
              <text class="inside" x={(px(from) + px(to)) / 2} y={middle} text-anchor="middle">{text}</text>
            </g>
          );
        })}
        <text class="named" x={px(margin) + 4} y={TOP - 8}>margin {percent(margin)}</text>
      </svg>
      </div>
      <ul class="legend">
        {found.map(({ part }) => <li key={part}><i class={`chip ${INKS[part]}`} />{PARTS[part]}</li>)}
        <li><svg class="ink-new" width="14" height="12" viewBox="0 0 14 12" aria-hidden="true"><circle cx="7" cy="6" r="5" fill="currentColor" /></svg>together, ± error; thin: ± two errors</li>
      </ul>
    </div>
  );
}
