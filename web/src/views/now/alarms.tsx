// The alarms: what is wrong now, the worst first, and what has ended.
import { Panel } from "../../parts/panel.tsx";
import { Status } from "../../parts/status.tsx";
import type { Alarm, Alarms } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, percent, perSecond, ratio, seconds, several, when } from "../../format.ts";

export function AlarmsPanel() {
  const found = useLive<Alarms>(looks.alarms).value;
  const ended = found?.ended ?? [];
  if (!found || (found.alarms.length === 0 && ended.length === 0)) return null;
  return (
    <Panel
      id="alarms"
      title="Alarms"
      class={found.critical ? "critical" : found.warning ? "warning" : "calm"}
      note={<p id="alarms-note" role="status">{note(found)}</p>}
    >
      {found.alarms.length > 0 && <List id="alarms-now" label="Alarms now" of={found.alarms} />}
      {ended.length > 0 && (
        <details id="alarms-ended">
          <summary>Those that ended</summary>
          <List label="Alarms that ended" of={ended} />
        </details>
      )}
    </Panel>
  );
}

function note({ alarms, critical, warning, left_off: left }: Alarms): string {
  const total = critical + warning;
  return [
    ...(critical ? [`${count(critical)} critical`] : []),
    ...(warning ? [several(warning, "warning")] : []),
    ...(total ? [] : ["none now"]),
    ...(total > alarms.length ? [`the worst ${count(alarms.length)} shown`] : []),
    ...(left ? [`${count(left)} more without room`] : []),
  ].join(", ");
}

function List({ id, label, of }: { id?: string; label: string; of: readonly Alarm[] }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <ul id={id} class="alarms">
        {of.map((one) => <Row key={`${one.kind} ${one.subject} ${one.since}`} one={one} />)}
      </ul>
    </div>
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
  const times = one.ended ? `${when(one.since)} to ${when(one.ended)}` : `since ${when(one.since)}`;
  const limit = UNITS[one.unit](one.threshold);
  return (
    <li>
      <Status tone={one.level} spoken={false}>{one.level}</Status>
      <p>
        <b>{one.subject}</b>
        <span class="quiet">{one.kind.replaceAll("_", " ")}</span>
      </p>
      <p>
        {one.sentence}.{" "}
        {!one.ended && <span class="quiet">{one.look}</span>}
      </p>
      <p class="quiet">
        {times}
        {limit && ` · from ${limit} on it is ${one.level}`}
        {one.why && ` · ended: ${one.why}`}
      </p>
    </li>
  );
}
