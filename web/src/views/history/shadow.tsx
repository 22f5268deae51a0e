// Shadow mode: what the advice would have been worth, day by day, on that day's traffic and without a write.
import { Chart } from "../../parts/chart.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { now } from "../../service/client.ts";
import type { AdviceDay, AdviceDays } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, gain, percent, several } from "../../format.ts";
import { adviceSaid } from "./advice-days.ts";
import { extent } from "./gain-series.ts";
import { useMarks } from "./marks.ts";
import { Past } from "./picked.tsx";

const HALF_DAY_S = 43_200;
const middle = ({ day }: AdviceDay) => Date.parse(`${day}T12:00:00Z`) / 1000;
const dated = (day: string) => new Date(`${day}T12:00:00Z`).toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });

export function ShadowPanel() {
  const advice = useLive<AdviceDays>(looks.advice);
  const shown = advice.problem?.status === 404 ? { ...advice, value: { days: [] }, problem: null } : advice;
  return (
    <Panel id="shadow" title="What the advice would have been worth" note="last 30 days, nothing written">
      <Past of={shown} empty={({ days }) => days.length === 0} none="No round of the last 30 days has worked out a gain. Rounds run also while nothing may be written, so that the advice can be judged here before it is followed.">
        {({ days }) => <Drawn days={days} />}
      </Past>
    </Panel>
  );
}

function Drawn({ days }: { days: readonly AdviceDay[] }) {
  const marks = useMarks();
  const xs = days.map(middle);
  return (
    <>
      <p id="shadow-said">{adviceSaid(days)}</p>
      {days.length > 1 && (
        <Chart
          id="shadow-days"
          label={`Mean gain that the advice of each of ${several(days.length, "day")} was worth.`}
          x={{ name: "time, each point a day in UTC", show: (at) => dated(new Date(at * 1000).toISOString().slice(0, 10)), time: true, low: (xs[0] ?? 0) - HALF_DAY_S, high: Math.max((xs.at(-1) ?? 0) + HALF_DAY_S, now() / 1000) }}
          xs={xs}
          y={{ name: "gain over what ran", show: percent, ...extent(days.map((one) => [one.gain, one.gain_error])) }}
          height={220}
          table={false}
          marks={marks}
          tell={(index) => told(days[index])}
          series={[
            { name: "what ran", ink: "quiet", values: xs.map(() => 0) },
            { name: "advice ± error", ink: "new", mark: "circle", line: true, size: 8, values: days.map((one) => one.gain), errors: days.map((one) => one.gain_error) },
          ]}
        />
      )}
      <Table
        caption="What the advice of each day was worth, the newest first"
        rows={[...days].reverse()}
        keyOf={({ day }) => day}
        columns={[
          { name: "Day, in UTC", cell: ({ day }) => dated(day), by: ({ day }) => day },
          { name: "Rounds", cell: ({ rounds }) => count(rounds), by: ({ rounds }) => rounds },
          { name: "Advised a change", cell: ({ advised }) => count(advised), by: ({ advised }) => advised },
          { name: "Worth", cell: (one) => gain(one.gain, one.gain_error), tone: (one) => (one.gain > 0 ? "better" : ""), by: (one) => one.gain },
        ]}
      />
    </>
  );
}

const told = (one: AdviceDay | undefined) =>
  one ? `${dated(one.day)} · ${gain(one.gain, one.gain_error)} over what ran · ${several(one.rounds, "round")}, ${count(one.advised)} advised a change` : "";
