// What people do here: one call each, and a sentence on the page where the service refuses it.
import { signal } from "@preact/signals";
import { Problem, type Asked, call } from "./client.ts";
import { refreshAll } from "./live.ts";

const UNANSWERED = "No answer came: it may have been done or not. Check the state before you ask again.";

// What came of the last thing asked for stays until the next, or until it is dismissed.
export const refused = signal<Problem | null>(null);

// True where it was done, at each of these addresses; where it was not, the page says why.
export async function act(path: string | readonly string[], asked: Asked = { method: "POST" }): Promise<boolean> {
  try {
    const paths = [path].flat();
    for (const one of paths) {
      try {
        await call(one, asked);
      } catch (error) {
        if (!(paths.length > 1 && error instanceof Problem && error.status === 404)) throw error; // of several one may be over
      }
    }
    refused.value = null;
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    refused.value = error.status === 0 ? new Problem(0, { detail: UNANSWERED }) : error;
    return false;
  } finally {
    refreshAll();
  }
}
