// What each switch runs, and the switches of a rollout: put together from what is asked for often and what is asked for
// less often.
import type { ListedRollout, RolloutSwitch, SwitchMarks, SwitchProgress, SwitchRead, SwitchSettings, SwitchState } from "./documents.ts";
import { useLive } from "./live.ts";
import * as looks from "./looks.ts";

export function useSwitches(): SwitchState[] | undefined {
  const found = useLive<SwitchRead[]>(looks.switches).value;
  const settings = useLive<SwitchSettings[]>(looks.switchSettings).value;
  return found && settings && joined(found, settings, ({ name }) => name);
}

const NOTED = 64; // switches of a rollout whose notes are shown beside them; of more each is asked for when it is opened

export function useRolloutSwitches({ id, summary }: ListedRollout): RolloutSwitch[] | undefined {
  const far = useLive<{ switches: SwitchProgress[] }>(looks.progress(id)).value;
  const marks = useLive<{ switches: SwitchMarks[] }>(looks.marks(id, summary.switches <= NOTED)).value;
  return far && marks && joined(far.switches, marks.switches, (one) => one.switch);
}

// Those of whom both tell.
export function joined<One, Other>(ones: readonly One[], others: readonly Other[], nameOf: (one: One | Other) => string): (One & Other)[] {
  const known = new Map(others.map((other) => [nameOf(other), other]));
  return ones.flatMap((one) => {
    const other = known.get(nameOf(one));
    return other ? [{ ...other, ...one }] : [];
  });
}
