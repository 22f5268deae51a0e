// What an alarm is called, and what is in it.
import type { Alarm, Silence } from "../../service/documents.ts";
import { count, several } from "../../format.ts";
import { natural } from "../../parts/order.ts";

export const kindOf = (kind: string): string => kind.replaceAll("_", " ");

// Somebody looks after it, or asked not to be told: it is shown, and does not stand out.
export const isKnown = (one: Alarm): boolean => one.acknowledged !== null || one.silenced !== null;

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
