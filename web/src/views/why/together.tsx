// What could be set together with the watermark: the parts of that change, and what every value alone would do.
import { Panel } from "../../parts/panel.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Table } from "../../parts/table.tsx";
import { bytes, gain, watermark } from "../../format.ts";
import { nicValues, setsNics } from "../../recommendation/nic-values.ts";
import type { Figure, Recommendation } from "../../service/documents.ts";

const valued = (value: Figure, unit: string) => (value === null ? "off" : unit === "B" ? bytes(value) : `${value} ${unit}`.trim());

export function TogetherPanel({ of: round }: { of: Recommendation }) {
  const found = round.co_tuning;
  if (!found) return null;
  return (
    <Panel id="together" title="Together with NICs and port roles" note={found.recommended ? "recommended" : "not recommended"}>
      <Sentence>{found.sentence}</Sentence>
      {found.changes.length > 0 && (
        <Table
          caption="The parts of the change, with their shares of its gain"
          rows={found.changes}
          keyOf={({ name }) => name}
          columns={[
            { name: "Value", cell: ({ name }) => name },
            { name: "Now", cell: (one) => (one.kind === "watermark" ? watermark(round.incumbent) : valued(one.before, one.unit)) },
            { name: "Then", cell: (one) => <b>{one.kind === "watermark" ? watermark(found.watermark) : valued(one.after, one.unit)}</b> },
            { name: "Share of the gain", cell: ({ share }) => gain(share) },
          ]}
        />
      )}
      {setsNics(found) && <p class="quiet">On ConnectX: {nicValues(found)}.</p>}
      <details>
        <summary>What each value alone would gain over the watermark alone</summary>
        <Table
          caption="Each value alone, tried over the range that hardware takes"
          rows={found.sensitivities}
          keyOf={({ name }) => name}
          columns={[
            { name: "Value", cell: ({ name }) => name },
            { name: "Now", cell: (one) => valued(one.before, one.unit) },
            { name: "Best", cell: (one) => valued(one.best, one.unit) },
            { name: "Gain of the best", cell: (one) => gain(one.gain) },
            { name: "Gain of the worst", cell: (one) => gain(one.worst) },
          ]}
        />
      </details>
      <p class="quiet">
        An approval sets the watermark recommended alone; approved with NICs it sets these values on all hosts, and this watermark. Approved by role (ecntwin approve --with-roles) it sets ports of each role, and this watermark on the others. A change of both is approved as one.
      </p>
    </Panel>
  );
}
