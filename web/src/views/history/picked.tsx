// A choice of how far back, and what is said where a part of the past cannot be read.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Refusal } from "../../parts/sentence.tsx";
import { now } from "../../service/client.ts";
import type { Live } from "../../service/live.ts";
import { RANGES, type Range, sinceOf } from "./range.ts";

interface Picked {
  range: Range;
  since: string;
  picker: ComponentChildren;
}

const STEPS = 60;

// Goes on with the clock, in steps of a sixtieth of what is looked at.
export function useSince(range: Range): string {
  const [passed, pass] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => pass((before) => before + 1), range.ms / STEPS);
    return () => clearInterval(timer);
  }, [range]);
  return useMemo(() => encodeURIComponent(sinceOf(range, now())), [range, passed]);
}

export function useRange(first: string, keys: readonly string[]): Picked {
  const [key, take] = useState(first);
  const offered = RANGES.filter((one) => keys.includes(one.key));
  const range = offered.find((one) => one.key === key) ?? (offered[0] as Range);
  const since = useSince(range);
  const picker = (
    <label class="field">
      <span class="unseen">How far back</span>
      <select value={range.key} onChange={(event) => take(event.currentTarget.value)}>
        {offered.map((one) => <option key={one.key} value={one.key}>{one.name}</option>)}
      </select>
    </label>
  );
  return { range, since, picker };
}

// What is there, or why not: not here yet, the database away, or nothing.
export function Past<T>({ of, empty, none, children }: { of: Live<T>; empty: (found: T) => boolean; none: string; children: (found: T) => ComponentChildren }) {
  const { value, problem } = of;
  return (
    <>
      {problem && problem.status !== 0 && (
        <div class="notice">
          {problem.status === 503 && <p><b>The past cannot be read just now.</b> Recommendations, and everything else that is of now, go on from memory.</p>}
          <Refusal problem={problem} />
        </div>
      )}
      {value === undefined ? !problem && <p class="quiet">Looking it up…</p> : empty(value) ? <p class="quiet">{none}</p> : children(value)}
    </>
  );
}
