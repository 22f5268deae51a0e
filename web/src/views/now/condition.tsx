// Is the fabric well? The verdict, and the figures that decide it: each with its limits and its last hour.
import { Answer } from "../../parts/answer.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Time } from "../../parts/time.tsx";
import { Trend } from "../../parts/trend.tsx";
import { now } from "../../service/client.ts";
import type { Condition, ConditionFigure } from "../../service/documents.ts";
import { asOf } from "../../service/fresh.ts";
import { VERDICTS, limits, namedFigure, reasons, trendSaid } from "./condition-words.ts";

export function ConditionPanel({ of, marks }: { of: Condition; marks: readonly string[] }) {
  const old = asOf.value !== null || of.level === "unknown";
  const { answer, tone } = VERDICTS[asOf.value === null ? of.level : "unknown"];
  const until = of.as_of ? Date.parse(of.as_of) : now();
  return (
    <Panel
      id="condition"
      title="Is the fabric well?"
      class={`statement ${tone} ${old ? "past" : ""}`}
      note={of.as_of && <>{old ? "as of" : "measured"} <Time at={of.as_of} /></>}
    >
      <div class="said">
        <Answer id="verdict" tone={tone}>{answer}</Answer>
        <p class="sentence" role="status">{asOf.value === null ? reasons(of.sentence) : "The service does not answer, so nothing is known of the fabric."}</p>
      </div>
      <ul id="condition-figures" class="vitals">
        {of.figures.map((one) => <Vital key={one.name} one={one} marks={marks} until={until} begun={of.as_of !== null} />)}
      </ul>
    </Panel>
  );
}

function Vital({ one, marks, until, begun }: { one: ConditionFigure; marks: readonly string[]; until: number; begun: boolean }) {
  const { name, of, show } = namedFigure(one);
  const known = one.value !== null;
  const at = ([["watch", one.watch_from], ["bad", one.bad_from]] as const).flatMap(([level, value]) => (value === null ? [] : [{ level, value }]));
  return (
    <li class={known ? one.level : "unknown"}>
      <span class="name">{name}</span>
      <p class="reading">
        <b>{known ? show(one.value) : "–"}</b>
        <span class="level">{known ? one.level : "not known"}</span>
      </p>
      {one.hour.length > 0 && <Trend label={trendSaid(one)} points={one.hour} limits={at} marks={marks} until={until} />}
      <small>{known ? limits(one) : begun ? whyNot(one) : "The first measurement is under way."}</small>
      {known && <small>{of}; median of the last hour {show(one.hour_median)}</small>}
    </li>
  );
}

const whyNot = ({ name }: ConditionFigure): string =>
  ["paused_share", "loss_share"].includes(name)
    ? "No switch sends counters of it."
    : name === "elephant_slowdown"
      ? "No large message both began and ended in the window."
      : "The reports of the window do not tell it.";
