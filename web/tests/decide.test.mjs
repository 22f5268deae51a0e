import assert from "node:assert/strict";
import { test } from "node:test";
import { nicValues, setsNics } from "../src/recommendation/nic-values.ts";
import { overtaken } from "../src/recommendation/overtaken.ts";

const standing = (more) => ({ id: "one", status: "pending", expired: null, blocked: [], ...more });

test("a question is over once its recommendation is not what it was", () => {
  assert.equal(overtaken("one", "approve", standing({})), null);
  assert.match(overtaken("one", "approve", standing({ id: "two" })), /newer/);
  assert.match(overtaken("one", "approve", undefined), /newer/);
  assert.equal(overtaken("one", "reject", standing({ status: "expired", expired: { reason: "Silence." } })), "It has expired: Silence.");
  assert.equal(overtaken("one", "reject", standing({ status: "rolled_back" })), "It is rolled back by now.");
});

test("what may not be approved now may be rejected", () => {
  const blocked = standing({ blocked: [{ reason: "leaf1 cannot be read.", until: null }] });
  assert.equal(overtaken("one", "approve", blocked), "leaf1 cannot be read.");
  assert.equal(overtaken("one", "reject", blocked), null);
});

test("NIC values are told for all hosts, and for classes that get others", () => {
  const alike = { connectx: { rpg_ai_rate: 40, rpg_threshold: 2 } };
  assert.equal(nicValues(alike), "rpg_ai_rate 40 Mbit/s, rpg_threshold 2 steps");
  assert.equal(nicValues({ ...alike, connectx_by_class: { storage: { rpg_ai_rate: 5 }, old: {} } }), "rpg_ai_rate 40 Mbit/s, rpg_threshold 2 steps; of storage rpg_ai_rate 5 Mbit/s; of old nothing");
  assert.equal(setsNics({ connectx: {} }), false);
  assert.equal(setsNics({ connectx: {}, connectx_by_class: { old: {} } }), false);
  assert.equal(setsNics({ connectx: {}, connectx_by_class: { storage: { rpg_ai_rate: 5 } } }), true);
});
