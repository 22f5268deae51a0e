// One egress port over time: depth, throughput, marks and pauses, of whichever port one picks.
import { useState } from "preact/hooks";
import { Chart, type Series } from "../../parts/chart.tsx";
import { found } from "../../parts/order.ts";
import { Panel } from "../../parts/panel.tsx";
import type { Figure, Forecasts, QueueHistory } from "../../service/documents.ts";
import { useKept, useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { bits, bytes, moment, percent, rate, seconds } from "../../format.ts";
import { useMarks } from "./marks.ts";
import { Past, useRange, useSince } from "./picked.tsx";
import { RANGES, type Range, aheadOf, drawnFrom } from "./range.ts";
import { type PortName, continued, drawable, portsOf } from "./series.ts";

const MANY = 12; // ports from which on one looks for them by name
const SPARSE = 60; // fewer points than this are marked, lest one alone is not seen

export function QueuesPanel() {
  const { range, since, picker } = useRange("hour", ["hour", "six", "day", "week", "quarter"]);
  const young = useSince(RANGES[0] as Range);
  const ports = useKept<QueueHistory>(looks.pastPorts(since));
  const newest = useKept<QueueHistory>(looks.youngPorts(young)).value;
  const names = portsOf(ports.value, newest);
  return (
    <Panel id="past-queues" title="Queues over time" note={picker}>
      <Past of={ports} empty={() => names.length === 0} none="No queue was measured in this time.">
        {() => <Picked since={since} names={names} ahead_s={aheadOf(range)} />}
      </Past>
    </Panel>
  );
}

function Picked({ since, names, ahead_s: ahead }: { since: string; names: readonly PortName[]; ahead_s: number }) {
  const [wanted, want] = useState("");
  const [text, look] = useState("");
  const offered = found(names, text, (one) => `${one.switch} ${one.port}`);
  const chosen = names.find((one) => `${one.switch} ${one.port}` === wanted) ?? (names[0] as PortName);
  const kept = useKept<QueueHistory>(looks.pastOf(chosen, decodeURIComponent(since)));
  const its = kept.value?.queues.every((one) => one.switch === chosen.switch && one.port === chosen.port);
  const past = its ? kept : { ...kept, value: undefined };
  const forecast = useLive<Forecasts>(looks.forecastOf(chosen, ahead)).value;
  return (
    <>
      <div class="row fields">
      {names.length > MANY && (
        <label class="field">
          Find a port
          <input type="search" value={text} onInput={(event) => look(event.currentTarget.value)} />
          {text && <span role="status">{`${offered.length} of ${names.length}`}</span>}
        </label>
      )}
      <label class="field">
        Port, the deepest first
        <select value={`${chosen.switch} ${chosen.port}`} onChange={(event) => want(event.currentTarget.value)}>
          {(offered.includes(chosen) ? offered : [chosen, ...offered]).map((one) => <option key={`${one.switch} ${one.port}`}>{`${one.switch} ${one.port}`}</option>)}
        </select>
      </label>
      </div>
      <Past of={past} empty={({ queues }) => queues.length === 0} none="No queue of this port was measured in this time.">
        {(found) => <PortCharts of={found} forecast={forecast} />}
      </Past>
    </>
  );
}

function PortCharts({ of: { queues, step_s: step, since, until }, forecast }: { of: QueueHistory; forecast: Forecasts | undefined }) {
  const marks = useMarks();
  const [port] = queues;
  if (!port) return null;
  const name = `${port.switch} ${port.port}`;
  const found = drawable(port, step);
  const end = Date.parse(until) / 1000;
  const marked = found.xs.length < SPARSE;
  const line = (one: Pick<Series, "name" | "values" | "ink">): Series => ({ ...one, ...(marked ? { mark: "circle", line: true, size: 5 } : {}) });
  const [ahead] = forecast?.ports ?? [];
  const path = ahead?.path ? continued(found, ahead.path) : null;
  const why = forecast?.why ?? ahead?.why;
  const charts: { id: string; title: string; show: (value: Figure) => string; series: Series[]; xs?: number[] }[] = [
    {
      id: "past-depth",
      title: "Queue depth",
      show: bytes,
      series: [line({ name: "largest", ink: "old", values: found.depth_max_bytes }), line({ name: "mean", ink: "new", values: found.depth_bytes })],
    },
    {
      id: "past-throughput",
      title: "Throughput",
      show: bits,
      ...(path && { xs: path.xs }),
      series: [
        line({ name: "throughput", ink: "new", values: path?.throughput ?? found.throughput_bytes_per_s }),
        ...(path
          ? [
              { name: `forecast (${ahead?.method})`, ink: "new" as const, dashed: true, values: path.forecast },
              { name: "95 % band, low", ink: "quiet" as const, dashed: true, values: path.low },
              { name: "95 % band, high", ink: "quiet" as const, dashed: true, values: path.high },
            ]
          : []),
      ],
    },
    { id: "past-marks", title: "Packets marked", show: rate, series: [line({ name: "marked", ink: "third", values: found.marked_packets_per_s })] },
    { id: "past-pause", title: "Share of time paused by PFC", show: percent, series: [line({ name: "paused", ink: "bad", values: found.pause_share })] },
  ];
  const known = charts.filter(({ series }) => series.some(({ values }) => values.some((value) => value !== null)));
  const rest = charts.filter((one) => !known.includes(one));
  return (
    <>
      <div class="grid small-charts">
        {known.map(({ id, title, show, series, xs = found.xs }) => (
          <section key={id} aria-labelledby={`${id}-title`}>
            <h3 id={`${id}-title`}>{title}</h3>
            <Chart
              id={id}
              label={`${title} of ${name} over time.`}
              x={{ name: `time, in steps of ${seconds(step)}`, show: moment, time: true, low: drawnFrom(Date.parse(since) / 1000, found.xs[0] ?? 0, end), high: Math.max(end, xs.at(-1) ?? end) }}
              xs={xs}
              y={{ name: within(title), show, low: 0 }}
              height={190}
              series={series}
              marks={marks}
            />
          </section>
        ))}
      </div>
      {why && <p class="quiet">No forecast: {why}.</p>}
      {rest.length > 0 && <p class="quiet">Not told of this port: {rest.map(({ title }) => within(title)).join(", ")}.</p>}
    </>
  );
}

// A title within a sentence: its first word is small.
const within = (title: string): string => title.charAt(0).toLowerCase() + title.slice(1);
