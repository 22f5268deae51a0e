// The alarms: what is wrong now, by cause, the worst first; what somebody looks after; and what has ended.
import { useState } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { Status } from "../../parts/status.tsx";
import type { Alarm, AlarmGroup, Alarms, Silences } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { bytes, closed, count, percent, perSecond, ratio, seconds, several, when } from "../../format.ts";
import { Said, Say, SayAll, Until } from "./alarm-acts.tsx";
import { about, aboutGroup, alone, groupTitle, isKnown, members, type Row, rowsOf, silenced, title } from "./alarm-words.ts";

const FIRST = 5;

export function AlarmsPanel() {
  const found = useLive<Alarms>(looks.alarms).value;
  const silences = useLive<Silences>(looks.silences).value?.silences ?? [];
  const ended = found?.ended ?? [];
  const notes = found?.notes ?? [];
  if (!found || [found.alarms, ended, silences, notes].every((list) => list.length === 0)) return null;
  const { open, known } = rowsOf(found);
  const worst = found.open_critical ? "critical" : found.open_warning ? "warning" : "calm";
  return (
    <Panel id="alarms" title="Alarms" class={worst} note={<p id="alarms-note" role="status">{note(found)}</p>}>
      {found.alarms.length > 0 && (
        <List id="alarms-now" label="Alarms now" of={[...open, ...known]} />
      )}
      {notes.map((text) => <p key={text} class="quiet">{closed(text)}</p>)}
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
          <List label="Alarms that ended" of={ended.map(alone)} />
        </details>
      )}
    </Panel>
  );
}

function note(found: Alarms): string {
  const { alarms, critical, warning, left_off: left, acknowledged, silenced: quiet, open_causes: causes } = found;
  const total = critical + warning;
  return [
    ...(critical ? [`${count(critical)} critical`] : []),
    ...(warning ? [several(warning, "warning")] : []),
    ...(total ? [] : ["none now"]),
    ...(acknowledged ? [`${count(acknowledged)} acknowledged`] : []),
    ...(quiet ? [`${count(quiet)} silenced`] : []),
    ...(causes && causes < found.open_critical + found.open_warning ? [`${several(causes, "cause")} to look for`] : []),
    ...(total > alarms.length ? [`the worst ${count(alarms.length)} shown`] : []),
    ...(left ? [`${count(left)} more over a threshold, not kept`] : []),
  ].join(", ");
}

function List({ id, label, of }: { id?: string; label: string; of: readonly Row[] }) {
  const [all, show] = useState(false);
  const more = of.length - FIRST;
  return (
    <>
      <ul id={id} class="alarms" aria-label={label}>
        {(all ? of : of.slice(0, FIRST)).map(({ group, alarms }) =>
          group ? <Together key={group.id} group={group} alarms={alarms} /> : <One key={alarms[0]!.id} one={alarms[0]!} />,
        )}
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
  bytes,
  per_second: perSecond,
  seconds,
  times: ratio,
  yes: () => "",
};

function Together({ group, alarms }: { group: AlarmGroup; alarms: Alarm[] }) {
  const known = group.open_count === 0;
  const name = groupTitle(group);
  const since = alarms.map((one) => one.since).sort()[0]!;
  const left = group.alarm_count - group.open_count;
  return (
    <li class={known ? "known" : undefined}>
      <Status tone={known ? "plain" : group.level} spoken={false}>{group.level}</Status>
      <p>
        <b>{name}</b>
        <span class="quiet">{aboutGroup(group)}</span>
      </p>
      <div>
        <p>
          {closed(group.sentence)} {!known && <span class="quiet">{alarms[0]!.look}</span>}
        </p>
        <SayAll of={alarms} />
      </div>
      <p class="quiet">
        since {when(since)}
        {left > 0 && ` · ${count(left)} acknowledged or silenced`}
      </p>
      <details class="each">
        <summary>Each alarm of {name}</summary>
        <List label={`Alarms of ${name}`} of={alarms.map(alone)} />
      </details>
    </li>
  );
}

function One({ one }: { one: Alarm }) {
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
          {closed(one.sentence)}{" "}
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
