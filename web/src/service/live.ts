// Documents that stay up to date: asked for when somebody looks, again after certain events, and every few seconds.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Problem, type Tag, asksForToken, away, read, text } from "./client.ts";
import { type Kind, listen } from "./events.ts";

export interface Look {
  path: string;
  after?: readonly Kind[]; // events after which it is asked for again
  everyMs?: number; // and so often anyway, lest an event was missed
  spacingMs?: number; // but not more often than this
  lasting?: boolean; // kept also while nobody looks
}

// What was asked for last in vain, by path: what is shown of it is older.
export const failing = signal<ReadonlyMap<string, { since: number; problem: Problem }>>(new Map());

const none = (problem: Problem | null): boolean => problem?.status === 404 || problem?.status === 409;

function tell(path: string, problem: Problem | null): void {
  const before = failing.value.get(path);
  if (!problem && !before) return;
  const all = new Map(failing.value);
  if (problem) all.set(path, { since: before?.since ?? Date.now(), problem });
  else all.delete(path);
  failing.value = all;
}

const EVERY_MS = 10_000;
const SPACING_MS = 300;
const KEPT_MS = 60_000; // once nobody looks any more

class Document<T> {
  readonly value = signal<T | undefined>(undefined);
  readonly problem = signal<Problem | null>(null);
  private said = "";
  private readonly tag: Tag = { etag: null };
  private busy = false;
  private again = false;
  private users = 0;
  private stop: (() => void) | null = null;
  private over: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly look: Look) {}

  use(): () => void {
    this.users += 1;
    clearTimeout(this.over);
    known.set(this.look.path, this as Document<unknown>);
    if (this.users === 1) {
      const deaf = listen(({ kind }) => {
        if (this.look.after?.includes(kind)) void this.refresh();
      });
      const timer = setInterval(() => void this.refresh(), this.look.everyMs ?? EVERY_MS);
      this.stop = () => {
        deaf();
        clearInterval(timer);
      };
    }
    void this.refresh();
    return () => {
      this.users -= 1;
      if (this.users > 0) return;
      this.stop?.();
      tell(this.look.path, null);
      if (!this.look.lasting) this.over = setTimeout(() => known.delete(this.look.path), KEPT_MS);
    };
  }

  // At most one call at a time and one every so often; whatever is wanted meanwhile gives one more.
  async refresh(): Promise<void> {
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.again && this.users > 0 && !document.hidden) {
        this.again = false;
        await this.ask();
        await new Promise((resolve) => setTimeout(resolve, this.look.spacingMs ?? SPACING_MS));
      }
    } finally {
      this.busy = false;
    }
  }

  private async ask(): Promise<void> {
    if (asksForToken.value) return; // each would be refused: whoever signs in refreshes all
    try {
      const said = await text(this.look.path, { tag: this.tag });
      away.value = null;
      // Where there is nothing new whoever reads it is not disturbed.
      if (said !== null && said !== this.said) {
        this.value.value = read<T>(said);
        this.said = said;
      }
      this.problem.value = null;
      tell(this.look.path, null);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.tag.etag = null; // of what could not be read
      this.problem.value = error;
      if (error.status === 0) away.value = error.message;
      if (none(error)) this.forget();
      if (none(error) || error.status === 401) tell(this.look.path, null);
      else if (this.users > 0) tell(this.look.path, error);
    }
  }

  private forget(): void {
    this.said = "";
    this.tag.etag = null;
    this.value.value = undefined;
  }
}

const known = new Map<string, Document<unknown>>();

export function documentOf<T>(look: Look): Document<T> {
  let found = known.get(look.path);
  if (!found) known.set(look.path, (found = new Document(look)));
  return found as Document<T>;
}

export interface Live<T> {
  value: T | undefined; // undefined: not here yet, or there is none
  problem: Problem | null;
  refresh: () => void;
}

const nothing: Signal<undefined> = signal(undefined);
const noProblem: Signal<null> = signal(null);

// The document at look.path for as long as the component is there; null asks for nothing.
export function useLive<T>(look: Look | null): Live<T> {
  const found = look === null ? null : documentOf<T>(look);
  useEffect(() => found?.use(), [found]);
  return {
    value: (found?.value ?? nothing).value,
    problem: (found?.problem ?? noProblem).value,
    refresh: () => void found?.refresh(),
  };
}

// With the last value of the look before until there is one of this.
export function useKept<T>(look: Look | null): Live<T> & { awaited: boolean } {
  const found = useLive<T>(look);
  const last = useRef<T | undefined>(undefined);
  if (found.value !== undefined || none(found.problem)) last.current = found.value;
  return { ...found, value: last.current, awaited: found.value === undefined && !found.problem };
}

// As last looked at by whoever uses it; asks for nothing.
export const latest = <T>(look: Look): T | undefined => documentOf<T>(look).value.value;

// After an own call changed something, or the token: everything that somebody looks at.
export function refreshAll(): void {
  for (const one of known.values()) void one.refresh();
}
