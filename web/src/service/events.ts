// The service's stream of events. EventSource sends no Authorization header, so it is read by hand, and opened
// again whenever it ends. A hidden page has none: over HTTP/1.1 a browser keeps six connections to a host in all.
import { signal } from "@preact/signals";
import { asksForToken, headers } from "./client.ts";

export type Kind = "reports" | "round" | "recommendation" | "advice" | "decision" | "validity" | "rollout" | "switch" | "alarm" | "condition" | "whatif";
export interface Happened {
  kind: Kind;
  data: Record<string, unknown>;
}
type Heard = (event: Happened) => void;

const SOONEST_MS = 1_000;
const LATEST_MS = 15_000;
const SILENT_MS = 40_000; // the service sends something every 15 s
const listeners = new Set<Heard>();
export const listening = signal(false);

// Tells `heard` of every event until the function that it returns is called.
export function listen(heard: Heard): () => void {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

export async function follow(): Promise<never> {
  for (let wait = SOONEST_MS; ; wait = Math.min(2 * wait, LATEST_MS)) {
    await signedIn();
    await seen();
    const stop = new AbortController();
    const hide = () => document.hidden && stop.abort();
    let silent = setTimeout(() => stop.abort(), SILENT_MS);
    document.addEventListener("visibilitychange", hide);
    const signedOut = asksForToken.subscribe((asks) => asks && stop.abort()); // the stream is that of the old token
    try {
      const answer = await fetch("/v1/events", { headers: headers(), signal: stop.signal });
      if (answer.ok && answer.body) {
        listening.value = true;
        wait = SOONEST_MS / 2;
        await read(answer.body, () => {
          clearTimeout(silent);
          silent = setTimeout(() => stop.abort(), SILENT_MS);
        });
      }
    } catch {
      // Looking every few seconds goes on meanwhile.
    }
    clearTimeout(silent);
    document.removeEventListener("visibilitychange", hide);
    signedOut();
    stop.abort();
    listening.value = false;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

// Without a token that is wanted every call would be refused, and an error in the browser's log.
function signedIn(): Promise<void> {
  return new Promise((resolve) => {
    const stop = asksForToken.subscribe((asks) => {
      if (!asks) queueMicrotask(() => {
        stop();
        resolve();
      });
    });
  });
}

function seen(): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

async function read(body: ReadableStream<Uint8Array>, heard: () => void): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const frames = (kept + value).split("\n\n");
    kept = frames.pop() ?? "";
    for (const frame of frames) {
      const event = understood(frame);
      if (event) for (const listener of [...listeners]) listener(event);
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
