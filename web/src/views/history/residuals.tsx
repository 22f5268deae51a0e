// How far the twin was from what was measured, round by round, with the limits beyond which nothing is pushed.
import { Chart } from "../../parts/chart.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { address } from "../../router.ts";
import { now } from "../../service/client.ts";
import type { Residual, Residuals } from "../../service/documents.ts";
import { useKept } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { bytes, count, moment, percent, several, signed } from "../../format.ts";
import { drawnFrom } from "./range.ts";
import { useMarks } from "./marks.ts";
import { Past, useRange } from "./picked.tsx";

export function ResidualPanel() {
  const { since, picker } = useRange("day", ["day", "week", "quarter"]);
  const residuals = useKept<Residuals>(looks.residuals(since));
  return (
    <Panel id="residuals" title="Twin against measurement" note={picker}>
      <Past
        of={residuals}
        empty={({ residuals: all }) => all.every(({ residual_ratio: one }) => one === null)}
        none="No round in this time had a measurement to be compared with."
      >
        {(found) => <Drawn of={found} since={Date.parse(decodeURIComponent(since)) / 1000} />}
      </Past>
    </Panel>
  );
}

function Drawn({ of: { limit, residuals }, since }: { of: Residuals; since: number }) {
  const marks = useMarks();
  const known = residuals.filter((one) => one.residual_ratio !== null).reverse();
  // What happened just now may lie ahead of the service's clock as it is known here, and nothing draws anew afterwards.
  const until = Math.max(now() / 1000, ...marks.map(({ at }) => at));
  const times = known.map((one) => Date.parse(one.at) / 1000);
  const xs = [drawnFrom(since, Math.min(...times), until), ...times, Math.max(until, ...times)]; // the lines go all the way
  const [low, high] = [1 / limit - 1, limit - 1];
  const values = known.map((one) => one.residual_ratio ?? 0);
  const beyond = values.filter((value) => value < low || value > high).length;
  const drawn = limit < 20; // a limit that nothing reaches is not worth the room
  const extent = [...values, 0, ...(drawn ? [low, high] : [])];
  const line = (value: number) => xs.map(() => value);
  const sizes = values.map(Math.abs).sort((one, other) => one - other);
  return (
    <>
      <p>
        {residuals.length >= looks.RESIDUALS && `Of the newest ${count(residuals.length)} rounds only. `}In {several(known.length, "round")} the twin's mean queue was off by {percent(sizes[Math.floor(sizes.length / 2)])} at the median, {percent(sizes.at(-1))} at the
        most{drawn ? (beyond === 0 ? "; none was beyond the limits." : `; ${beyond} ${beyond === 1 ? "was" : "were"} beyond the limits: nothing is pushed by itself then.`) : "."}
      </p>
      <Chart
        id="residual-chart"
        label={`Mean queue predicted over measured, less one, of ${known.length} rounds. Limits ${signed(low)} and ${signed(high)}.`}
        x={{ name: "time", show: moment, time: true, low: xs[0] ?? 0, high: xs.at(-1) ?? 1 }}
        xs={xs}
        y={{ name: "predicted over measured, less 1", show: signed, low: Math.min(...extent) - 0.08, high: Math.max(...extent) + 0.08 }}
        height={240}
        table={false}
        marks={marks}
        tell={(index) => told(known[index - 1])}
        series={[
          { name: "residual", ink: "new", mark: "circle", line: true, size: 7, values: [null, ...values, null] },
          { name: "in step", ink: "quiet", values: line(0) },
          ...(drawn
            ? ([
                { name: `limit ${signed(high)}`, ink: "bad", dashed: true, values: line(high) },
                { name: `limit ${signed(low)}`, ink: "bad", dashed: true, values: line(low) },
              ] as const)
            : []),
        ]}
      />
      <details>
        <summary>As a table</summary>
        <Table
          caption="Residuals, the newest first"
          rows={residuals}
          keyOf={({ at, recommendation }) => at + recommendation}
          columns={[
            { name: "When", cell: (one) => <a href={address("why", one.recommendation)}><Time at={one.at} /></a> },
            { name: "Predicted", cell: (one) => bytes(one.predicted_bytes) },
            { name: "Measured", cell: (one) => bytes(one.measured_bytes) },
            { name: "Residual", cell: (one) => (one.residual_ratio === null ? "–" : signed(one.residual_ratio)) },
          ]}
        />
      </details>
    </>
  );
}

const told = (one: Residual | undefined) =>
  one
    ? `${moment(Date.parse(one.at) / 1000)} · predicted ${bytes(one.predicted_bytes)}, measured ${bytes(one.measured_bytes)}: ${signed(one.residual_ratio ?? 0)}`
    : "";
