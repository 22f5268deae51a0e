import assert from "node:assert/strict";
import { test } from "node:test";
import { asksForToken, forgetToken, keepToken, keepsToken } from "../src/service/client.ts";

test("a token that cannot be sent is not kept, and one that is kept can be forgotten", () => {
  const kept = new Map();
  globalThis.sessionStorage = { getItem: (name) => kept.get(name) ?? null, setItem: (name, text) => kept.set(name, text), removeItem: (name) => kept.delete(name) };
  for (const wrong of ["", "two words", "gr\u00fcn", "a\nb"]) assert.match(keepToken(wrong), /^A token has only/);
  assert.equal(keepsToken(), false);
  assert.equal(keepToken("ecntwin_1-/+=~"), null);
  assert.deepEqual([keepsToken(), asksForToken.value], [true, false]);
  forgetToken();
  assert.deepEqual([keepsToken(), asksForToken.value], [false, true]);
});
