// What people do here: one call each, and a sentence on the page where the service refuses it.
import { signal } from "@preact/signals";
import { Problem, type Asked, call } from "./client.ts";
import { refreshAll } from "./live.ts";

// What came of the last thing asked for stays until the next, or until it is dismissed.
export const refused = signal<Problem | null>(null);

// True where it was done, at each of these addresses; where it was not, the page says why.
export async function act(path: string | readonly string[], asked: Asked = { method: "POST" }): Promise<boolean> {
  try {
    for (const one of [path].flat()) await call(one, asked);
    refused.value = null;
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    refused.value = error;
    return false;
  } finally {
    refreshAll();
  }
}
