import assert from "node:assert/strict";
import { test } from "node:test";
import { round } from "../src/shell/round.ts";
import { asksForToken } from "../src/service/client.ts";
import { follow, listening } from "../src/service/events.ts";

globalThis.sessionStorage = { getItem: () => null };
globalThis.document = Object.assign(new EventTarget(), { hidden: true });

test("a hidden page and one signed out have no stream, and a stream that is silent ends with its round", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const streams = [];
  globalThis.fetch = async (_, { signal }) => {
    const stream = { aborted: false };
    streams.push(stream);
    return new Response(new ReadableStream({
      start(controller) {
        stream.send = (text) => controller.enqueue(new TextEncoder().encode(text));
        signal.addEventListener("abort", () => {
          if (!stream.aborted) controller.error(new Error("aborted"));
          stream.aborted = true;
        });
      },
    }));
  };
  const until = async (true_) => {
    for (let tries = 0; !true_() && tries < 100; tries += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(true_());
  };
  const show = (hidden) => {
    document.hidden = hidden;
    document.dispatchEvent(new Event("visibilitychange"));
  };
  const begin = async (number) => {
    await until(() => listening.value && streams.length === number);
    streams.at(-1).send('event: round\ndata: {"stage":"started"}\n\n');
    await until(() => round.value !== null);
  };
  void follow();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(streams.length, 0);
  show(false);
  await begin(1);
  t.mock.timers.tick(30_000);
  assert.equal(streams[0].aborted, false);
  t.mock.timers.tick(10_000);
  await until(() => !listening.value);
  assert.deepEqual([streams[0].aborted, round.value], [true, null]);
  t.mock.timers.tick(15_000);
  await begin(2);
  show(true);
  await until(() => !listening.value);
  t.mock.timers.tick(15_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([streams[1].aborted, streams.length], [true, 2]);
  show(false);
  await begin(3);
  asksForToken.value = true;
  await until(() => !listening.value);
  t.mock.timers.tick(15_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([streams[2].aborted, streams.length], [true, 3]);
});
