import assert from "node:assert/strict";
import { test } from "node:test";
import { act, refused } from "../src/service/acts.ts";

globalThis.sessionStorage = { getItem: () => null };

const answering = (...statuses) => {
  const asked = [];
  globalThis.fetch = async (path) => {
    asked.push(path);
    const status = statuses.shift();
    if (!status) throw new TypeError("no answer");
    return new Response("{}", { status });
  };
  return asked;
};

test("of several one that is over is passed over, one alone is told", async () => {
  const asked = answering(404, 200, 200);
  assert.equal(await act(["/a", "/b", "/c"]), true);
  assert.deepEqual(asked, ["/a", "/b", "/c"]);
  answering(404);
  assert.equal(await act("/a"), false);
  assert.equal(refused.value.status, 404);
});

test("what was not answered may have been done", async () => {
  answering();
  assert.equal(await act("/a"), false);
  assert.match(refused.value.message, /^No answer came: it may have been done or not/);
});
