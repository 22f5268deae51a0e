// The alarms: what is wrong now, by cause, the worst first; what somebody looks after; and what has ended.
import { useState } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { Status } from "../../parts/status.tsx";
import type { Alarm, Alarms, Silences } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, percent, perSecond, ratio, seconds, several, when } from "../../format.ts";
import { Said, Say, Until } from "./alarm-acts.tsx";
import { about, isKnown, members, silenced, title } from "./alarm-words.ts";

const FIRST = 5;

export function AlarmsPanel() {
  const found = useLive<Alarms>(looks.alarms).value;
  const silences = useLive<Silences>(looks.silences).value?.silences ?? [];
  const ended = found?.ended ?? [];
  if (!found || (found.alarms.length === 0 && ended.length === 0 && silences.length === 0)) return null;
  const open = found.alarms.filter((one) => !isKnown(one));
  const worst = open.some(({ level }) => level === "critical") ? "critical" : open.length ? "warning" : "calm";
  return (
    <Panel id="alarms" title="Alarms" class={worst} note={<p id="alarms-note" role="status">{note(found)}</p>}>
      {found.alarms.length > 0 && (
        <List id="alarms-now" label="Alarms now" of={[...open, ...found.alarms.filter(isKnown)]} />
      )}
      {silences.length > 0 && (
        <details id="silences">
          <summary>{several(silences.length, "silence")}</summary>
          <ul class="alarms">
            {silences.map((one) => <li key={one.id} class="silence"><p><b>{silenced(one)}</b></p><p class="said"><Until one={one} /></p></li>)}
          </ul>
        </details>
      )}
      {ended.length > 0 && (
        <details id="alarms-ended">
          <summary>Ended alarms</summary>
          <List label="Alarms that ended" of={ended} />
        </details>
      )}
    </Panel>
  );
}

function note({ alarms, critical, warning, left_off: left, acknowledged, silenced: quiet }: Alarms): string {
  const total = critical + warning;
  return [
    ...(critical ? [`${count(critical)} critical`] : []),
    ...(warning ? [several(warning, "warning")] : []),
    ...(total ? [] : ["none now"]),
    ...(acknowledged ? [`${count(acknowledged)} acknowledged`] : []),
    ...(quiet ? [`${count(quiet)} silenced`] : []),
    ...(total > alarms.length ? [`the worst ${count(alarms.length)} shown`] : []),
    ...(left ? [`${count(left)} more without room`] : []),
  ].join(", ");
}

function List({ id, label, of }: { id?: string; label: string; of: readonly Alarm[] }) {
  const [all, show] = useState(false);
  const more = of.length - FIRST;
  return (
    <>
      <ul id={id} class="alarms" aria-label={label}>
        {(all ? of : of.slice(0, FIRST)).map((one) => <Row key={one.id} one={one} />)}
      </ul>
      {more > 0 && (
        <button class="small" type="button" aria-expanded={all} onClick={() => show(!all)}>
          {all ? `Show the first ${FIRST}` : `Show ${count(more)} more`}
        </button>
      )}
    </>
  );
}

const UNITS: Record<Alarm["unit"], (value: number | null) => string> = {
  share: percent,
  per_second: perSecond,
  seconds,
  times: ratio,
  yes: () => "",
};

function Row({ one }: { one: Alarm }) {
  const known = isKnown(one);
  const times = one.ended ? `${when(one.since)} to ${when(one.ended)}` : `since ${when(one.since)}`;
  const limit = one.threshold === null ? "" : UNITS[one.unit](one.threshold);
  return (
    <li class={known ? "known" : undefined}>
      <Status tone={known ? "plain" : one.level} spoken={false}>{one.level}</Status>
      <p>
        <b>{title(one)}</b>
        <span class="quiet">{about(one)}</span>
      </p>
      <div>
        <p>
          {one.sentence}.{" "}
          {!one.ended && !known && <span class="quiet">{one.look}</span>}
        </p>
        {one.subject_count > 1 && <p class="quiet">{members(one)}</p>}
        {!one.ended && <Said one={one} />}
        {!one.ended && <Say one={one} />}
      </div>
      <p class="quiet">
        {times}
        {limit && ` · ${one.level} from ${limit}`}
        {one.carried && !one.ended && " · from before the service started, not measured again yet"}
        {one.why && ` · ended: ${one.why}`}
      </p>
    </li>
  );
}
