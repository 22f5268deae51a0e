import assert from "node:assert/strict";
import { test } from "node:test";
import { now, text } from "../src/service/client.ts";

const START = Date.parse("2026-01-01T00:00:00Z");

test("the service's clock is not taken to differ where its answer only came late", async (t) => {
  let here = START;
  t.mock.method(Date, "now", () => here);
  globalThis.sessionStorage = { getItem: () => null };
  const answered = async (shows, tookMs) => {
    globalThis.fetch = async () => {
      here += tookMs;
      return new Response("{}", { headers: { Date: new Date(shows).toUTCString() } });
    };
    await text("/v1/state");
    return now() - here;
  };
  assert.equal(await answered(here, 20_000), 0); // dated when it was asked
  assert.equal(await answered(here + 20_000, 20_000), 0); // and when it came
  assert.equal(await answered(here - 60_000, 20_000), -60_000);
  assert.equal(await answered(here + 60_000, 20_000), 40_000);
});
