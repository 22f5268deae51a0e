// The service's stream of events. EventSource sends no Authorization header, so it is read by hand, and opened
// again whenever it ends.
import { type Signal, signal } from "@preact/signals";
import { asksForToken, headers, heard } from "./client.ts";

export type Kind = "reports" | "round" | "recommendation" | "decision" | "validity" | "rollout" | "switch" | "alarm" | "condition" | "whatif";
export interface Happened {
  kind: Kind;
  data: Record<string, unknown>;
}
type Heard = (event: Happened) => void;

const SOONEST_MS = 1_000;
const LATEST_MS = 15_000;
const listeners = new Set<Heard>();
export const listening = signal(false);

// Tells `hears` of every event until the function that it returns is called.
export function listen(hears: Heard): () => void {
  listeners.add(hears);
  return () => listeners.delete(hears);
}

export async function follow(): Promise<never> {
  await until(heard, (at) => at > 0); // a browser opens six connections: what is shown first goes first
  for (let wait = SOONEST_MS; ; wait = Math.min(2 * wait, LATEST_MS)) {
    try {
      await until(asksForToken, (asks) => !asks); // else each call would be refused, and an error in the browser's log
      const answer = await fetch("/v1/events", { headers: headers() });
      if (answer.ok && answer.body) {
        listening.value = true;
        wait = SOONEST_MS / 2;
        await read(answer.body);
      }
    } catch {
      // Looking every few seconds goes on meanwhile.
    }
    listening.value = false;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function until<T>(told: Signal<T>, holds: (value: T) => boolean): Promise<void> {
  return new Promise((resolve) => {
    const stop = told.subscribe((value) => {
      if (holds(value)) queueMicrotask(() => {
        stop();
        resolve();
      });
    });
  });
}

async function read(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (kept + value).split("\n\n");
    kept = frames.pop() ?? "";
    for (const frame of frames) {
      const event = understood(frame);
      if (event) for (const hears of [...listeners]) hears(event);
    }
  }
}

export function understood(frame: string): Happened | null {
  const fields = new Map(
    frame
      .split("\n")
      .filter((line) => !line.startsWith(":"))
      .map((line) => /^([^:]*):? ?(.*)$/s.exec(line)?.slice(1, 3) as [string, string]),
  );
  const [kind, data] = [fields.get("event"), fields.get("data")];
  return kind && data ? { kind: kind as Kind, data: JSON.parse(data) as Record<string, unknown> } : null;
}
