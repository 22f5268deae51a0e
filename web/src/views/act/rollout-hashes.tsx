// The switches of a rollout that sets what they hash flows by: how far each is, from what to what.
import { Table } from "../../parts/table.tsx";
import type { ListedRollout, RolloutHash } from "../../service/documents.ts";
import { progressOf } from "./rollout-words.ts";

export function RolloutHashes({ of }: { of: ListedRollout }) {
  return (
    <Table
      id="rollout-hashes"
      caption="Switches of the rollout"
      rows={of.hashes ?? []}
      keyOf={(one) => one.switch}
      text={(one) => `${one.switch} ${progressOf(one, of)} ${one.detail}`}
      columns={[
        {
          name: "Switch",
          cell: (one) => (
            <>
              {one.switch} {!one.writes && <span class="tag">dry run</span>}
              {one.detail && <small>{one.detail}</small>}
            </>
          ),
          by: (one) => one.switch,
        },
        { name: "Progress", cell: (one) => progressOf(one, of), tone: (one) => `progress ${one.progress.replace("_", "-")}`, words: true, by: (one) => progressOf(one, of) },
        { name: "ECMP hash, from → to", cell: (one) => fromTo(one), words: true },
      ]}
    />
  );
}

// Null before it is known, and where the switch chooses one itself.
const fromTo = ({ before, target, progress }: RolloutHash): string =>
  progress === "waiting" ? `${target} wanted` : `${before ?? "its own"} → ${target}`;
