import assert from "node:assert/strict";
import { test } from "node:test";
import { about, aboutGroup, groupTitle, isKnown, members, rowsOf, silenced, title } from "../src/views/now/alarm-words.ts";

const on = (name, kind = "pfc_frames") => ({ subject: `leaf1 ${name}`, kind, switch: "leaf1", level: "warning" });
const alarm = (more) => ({
  kind: "pfc_frames", subject: "leaf1 Ethernet10", switch: "leaf1", incast: null, acknowledged: null, silenced: null,
  subjects: [on("Ethernet10"), on("Ethernet2")], subject_count: 17, ...more,
});

test("an alarm is called by its switch, its port, or its receiver", () => {
  assert.equal(title(alarm({})), "leaf1");
  assert.equal(title(alarm({ subject_count: 1 })), "leaf1 Ethernet10");
  assert.equal(title(alarm({ incast: { receiver: "h0" } })), "Incast to h0");
  assert.equal(title(alarm({ switch: null })), "17 senders or devices");
});

test("its ports are in their natural order, those left out are counted", () => {
  assert.equal(members(alarm({})), "Ethernet2, Ethernet10 and 15 more");
  const spine = { subject: "spine1 Ethernet4", kind: "pfc_storm" };
  assert.equal(members(alarm({ subjects: [on("Ethernet2"), spine], subject_count: 2 })), "leaf1 Ethernet2, spine1 Ethernet4");
  assert.equal(about(alarm({ subjects: [on("Ethernet2"), spine] })), "pfc frames, pfc storm · 17 in all");
});

test("what somebody looks after, or silenced, is known", () => {
  assert.deepEqual([{}, { acknowledged: {} }, { silenced: {} }].map((more) => isKnown(alarm(more))), [false, true, true]);
  assert.equal(silenced({ kind: null, switch: "leaf1" }), "every kind on leaf1");
  assert.equal(silenced({ kind: "pfc_storm", switch: null }), "pfc storm");
});

test("what began at once is one row, those that somebody looks after come last", () => {
  const group = { id: "a", kinds: ["telemetry_silent", "unreachable"], switches: ["leaf1", "leaf2"], switch_count: 2, alarm_count: 3, open_count: 1 };
  const [known, first, alone, second] = [
    alarm({ id: "k", group: null, acknowledged: {} }),
    alarm({ id: "a", group: "a", acknowledged: {} }),
    alarm({ id: "o", group: null }),
    alarm({ id: "b", group: "a" }),
  ];
  const found = { alarms: [known, first, alone, second], groups: [group] };
  const ids = (rows) => rows.map(({ alarms }) => alarms.map(({ id }) => id).join());
  assert.deepEqual(ids(rowsOf(found).open), ["a,b", "o"]);
  assert.deepEqual(ids(rowsOf(found).known), ["k"]);
  const all = rowsOf({ ...found, groups: [{ ...group, open_count: 0 }] });
  assert.deepEqual([ids(all.open), ids(all.known)], [["o"], ["k", "a,b"]]);
  assert.equal(groupTitle(group), "2 switches");
  assert.equal(groupTitle({ ...group, switches: ["leaf1"], switch_count: 1 }), "leaf1");
  assert.equal(aboutGroup(group), "telemetry silent, unreachable · 3 alarms");
});
