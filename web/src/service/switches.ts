// What each switch runs: as last listed, and as events have told since. A list reads every switch, so it is taken seldom.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { SwitchState } from "./documents.ts";
import { listen } from "./events.ts";
import { useLive } from "./live.ts";
import * as looks from "./looks.ts";

type Told = Pick<SwitchState, "running" | "reachable" | "drifted">;
const told = signal<ReadonlyMap<string, Told>>(new Map());
let listed: SwitchState[] | undefined;

listen(({ kind, data: { switch: name, running, reachable, drifted } }) => {
  if (kind === "switch") told.value = new Map([...told.value, [String(name), { running, reachable, drifted } as Told]]);
});

export function useSwitches(): SwitchState[] | undefined {
  const found = useLive<SwitchState[]>(looks.switches).value;
  useEffect(() => {
    if (found === listed) return;
    listed = found;
    told.value = new Map();
  }, [found]);
  return found?.map((one) => ({ ...one, ...told.value.get(one.name) }));
}
