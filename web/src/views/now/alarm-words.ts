// What an alarm is called, and what is in it.
import type { Alarm, AlarmGroup, Alarms, Silence } from "../../service/documents.ts";
import { count, several } from "../../format.ts";
import { natural } from "../../parts/order.ts";

export const kindOf = (kind: string): string => kind.replaceAll("_", " ");

// Somebody looks after it, or asked not to be told: it is shown, and does not stand out.
export const isKnown = (one: Alarm): boolean => one.acknowledged !== null || one.silenced !== null;

// One row: an alarm, or those that began at once.
export interface Row {
  group: AlarmGroup | null;
  alarms: Alarm[];
}

export const alone = (one: Alarm): Row => ({ group: null, alarms: [one] });

const knownRow = ({ group, alarms }: Row): boolean => (group ? group.open_count === 0 : alarms.every(isKnown));

// What asks for attention first, each in the order of the alarms.
export function rowsOf({ alarms, groups }: Pick<Alarms, "alarms" | "groups">): { open: Row[]; known: Row[] } {
  const rows = new Map<string, Row>();
  for (const one of alarms) {
    const group = groups.find(({ id }) => id === one.group) ?? null;
    const row = rows.get(group?.id ?? one.id);
    if (row) row.alarms.push(one);
    else rows.set(group?.id ?? one.id, { group, alarms: [one] });
  }
  const every = [...rows.values()];
  return { open: every.filter((row) => !knownRow(row)), known: every.filter(knownRow) };
}

export const groupTitle = ({ switches, switch_count: number }: AlarmGroup): string =>
  number === 1 ? switches[0]! : several(number, "switch", "switches");

export const aboutGroup = ({ kinds, alarm_count: number }: AlarmGroup): string =>
  `${kinds.map(kindOf).join(", ")} · ${several(number, "alarm")}`;

export function title({ incast, subject, subject_count: number, switch: name }: Alarm): string {
  if (incast) return `Incast to ${incast.receiver}`;
  return number === 1 ? subject : (name ?? several(number, "sender or device", "senders or devices"));
}

// "pfc frames, ecn off · 17 ports and queues".
export function about(one: Alarm): string {
  const kinds = [...new Set([one.kind, ...one.subjects.map(({ kind }) => kind)])].map(kindOf).join(", ");
  return one.subject_count === 1 ? kinds : `${kinds} · ${count(one.subject_count)} in all`;
}

// The ports and queues in it, without the switch where all are on that.
export function members(one: Alarm): string {
  const prefix = `${one.switch ?? ""} `;
  const all = one.subjects.every(({ subject }) => subject.startsWith(prefix));
  const names = one.subjects.map(({ subject }) => (all ? subject.slice(prefix.length) : subject)).sort(natural);
  const more = one.subject_count - names.length;
  return names.join(", ") + (more > 0 ? ` and ${count(more)} more` : "");
}

export const silenced = ({ kind, switch: name }: Silence): string =>
  [kind ? kindOf(kind) : "every kind", ...(name ? [name] : [])].join(" on ");
