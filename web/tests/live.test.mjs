import assert from "node:assert/strict";
import { test } from "node:test";
import { away } from "../src/service/client.ts";
import { documentOf, failing } from "../src/service/live.ts";

globalThis.sessionStorage = { getItem: () => null };
globalThis.document = { hidden: false };

// A look that the service answers by `answers` in turn, and by the last from then on.
async function asked(t, path, ...answers) {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  globalThis.fetch = async () => new Response(...(answers.length > 1 ? answers.shift() : answers[0]));
  const found = documentOf({ path });
  const leave = found.use();
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const next = async () => {
    await settled();
    t.mock.timers.tick(10_000);
    await settled();
  };
  await settled();
  return { found, leave, next };
}

test("what cannot be read is told, and asked for again", async (t) => {
  const { found, leave, next } = await asked(t, "/a", ['{"n":1}', { headers: { ETag: "1" } }], ["<html>", { headers: { ETag: "2" } }], ['{"n":2}']);
  assert.deepEqual(found.value.value, { n: 1 });
  await next();
  assert.equal(found.problem.value.message, "The answer cannot be read.");
  assert.equal(failing.value.size, 1);
  await next();
  await next();
  assert.deepEqual([found.value.value, found.problem.value, failing.value.size], [{ n: 2 }, null, 0]);
  leave();
});

test("old figures are told as old while they are shown", async (t) => {
  const { found, leave, next } = await asked(t, "/b", ['{"n":1}'], ['{"detail":"broken"}', { status: 500 }], ['{"detail":"broken"}', { status: 500 }]);
  await next();
  assert.deepEqual(found.value.value, { n: 1 });
  assert.equal(failing.value.get("/b").problem.message, "broken");
  leave();
  assert.equal(failing.value.size, 0);
});

test("what nobody looks at is forgotten after a minute, what is lasting is not", async (t) => {
  const { found, leave } = await asked(t, "/c", ['{"n":1}']);
  const lasting = documentOf({ path: "/d", lasting: true });
  lasting.use()();
  leave();
  t.mock.timers.tick(59_000);
  found.use()();
  t.mock.timers.tick(59_000);
  assert.equal(documentOf({ path: "/c" }), found);
  t.mock.timers.tick(1_000);
  assert.notEqual(documentOf({ path: "/c" }), found);
  assert.equal(documentOf({ path: "/d" }), lasting);
});

test("what alone is not answered is told as old, though the service answers", async (t) => {
  const { leave, next } = await asked(t, "/e", ["{}"]);
  const other = documentOf({ path: "/f" });
  const leaveOther = other.use();
  await next();
  const answers = globalThis.fetch;
  globalThis.fetch = async (path) => (path === "/f" ? Promise.reject(new DOMException("", "TimeoutError")) : answers());
  await next();
  await next();
  assert.deepEqual([[...failing.value.keys()], other.value.value], [["/f"], {}]);
  globalThis.fetch = answers;
  await next();
  await next();
  assert.deepEqual([failing.value.size, away.value], [0, null]);
  leave();
  leaveOther();
});
