// Which view is shown: the part of the address after #, such as #/now or #/why/{id}.
import { computed, signal } from "@preact/signals";

export interface Place {
  view: string;
  rest: readonly string[];
}

export function placeOf(hash: string): Place {
  const [view = "", ...rest] = hash.replace(/^#?\/?/, "").split("/").filter(Boolean).map(decoded);
  return { view, rest };
}

// An address that somebody typed, or cut short, may hold what is no encoding.
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const address = (view: string, ...rest: string[]): string =>
  `#/${[view, ...rest].map(encodeURIComponent).join("/")}`;

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));
export const place = computed(() => placeOf(hash.value));
