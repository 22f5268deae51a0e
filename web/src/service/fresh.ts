// How old what the page shows is, and what keeps its reader from acting on it.
import { computed, signal } from "@preact/signals";
import { asksForToken, away, heard } from "./client.ts";
import type { Readiness } from "./documents.ts";
import { useLive } from "./live.ts";
import * as looks from "./looks.ts";

const LATE_MS = 15_000; // something is asked for every ten seconds

// This machine's clock, each second.
export const second = signal(Date.now());
setInterval(() => (second.value = Date.now()), 1_000);

export const silent = computed(() => away.value !== null || (heard.value > 0 && second.value - heard.value > LATE_MS));
// When the figures came, in ms since 1970, once they are old; null while the service answers, and before it first did.
export const asOf = computed(() => (silent.value && heard.value > 0 ? heard.value : null));

// Why nothing can be changed from here; null where it can.
export function useHindrance(): string | null {
  const scopes = useLive<Readiness>(looks.readiness).value?.scopes;
  if (silent.value) return "The service does not answer.";
  if (asksForToken.value) return "Sign in first.";
  if (scopes && !scopes.includes("operate")) return "This token is read-only: it lacks the scope operate.";
  return null;
}
