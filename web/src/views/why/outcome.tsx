// What the twin predicted, beside what was measured before the rollout and after it.
import { Refusal, Sentence } from "../../parts/sentence.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { bits, bytes, gbps, percent, portion, rate, signed } from "../../format.ts";
import { change } from "../../recommendation/figures.ts";
import type { Figure, Outcome, Recommendation } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { gainSentence, sentence } from "./outcome-words.ts";

type Pair = readonly [before: Figure, after: Figure];
interface Row {
  name: string;
  good: -1 | 0 | 1;
  predicted: Pair | null;
  show: (value: Figure) => string;
  measured: Pair;
  tell: (value: Figure) => string;
}

function rowsOf({ predicted: { incumbent, recommended }, before, after }: Outcome): Row[] {
  const pair = <T,>(key: keyof T, one: T | null, other: T | null): Pair =>
    [(one?.[key] ?? null) as Figure, (other?.[key] ?? null) as Figure];
  const rows: Row[] = [
    { name: "Mean queue", good: -1, predicted: pair("queue_mean_bytes", incumbent, recommended), show: bytes, measured: pair("queue_mean_bytes", before, after), tell: bytes },
    { name: "Deepest queue", good: -1, predicted: pair("queue_peak_bytes", incumbent, recommended), show: bytes, measured: pair("queue_max_bytes", before, after), tell: bytes },
    { name: "Throughput", good: 1, predicted: pair("goodput_gbps", incumbent, recommended), show: gbps, measured: pair("throughput_bytes_per_s", before, after), tell: bits },
    { name: "Packets marked", good: 0, predicted: pair("marked_fraction", incumbent, recommended), show: percent, measured: pair("marked_packets_per_s", before, after), tell: rate },
    { name: "Time paused by PFC", good: -1, predicted: null, show: percent, measured: pair("pause_share", before, after), tell: portion },
  ];
  return rows.filter(({ measured, predicted }) => [...measured, ...(predicted ?? [])].some((value) => value !== null));
}

const both = (pair: Pair | null, show: (value: Figure) => string) =>
  pair === null ? "–" : `${show(pair[0])} → ${show(pair[1])}`;
const told = (pair: Pair | null, good: Row["good"]) => change(pair?.[0] ?? null, pair?.[1] ?? null, { good });

export function OutcomePanel({ of: round }: { of: Recommendation }) {
  const { value: found, problem } = useLive<Outcome>(round.rollout ? looks.outcome(round.id) : null);
  if (!round.rollout) {
    return (
      <Panel id="outcome" title="Predicted, and then measured">
        <p class="quiet">
          {round.changes
            ? "It has not been rolled out. Once it runs, what telemetry measured before and after is compared with the prediction here."
            : "Nothing was changed, so there is no before and after."}
        </p>
        <InStep of={round} />
      </Panel>
    );
  }
  const dry = round.pushed.length > 0 && round.pushed.every(({ writes }) => !writes);
  return (
    <Panel
      id="outcome"
      title="Predicted, and then measured"
      note={found?.since ? <>set <Time at={found.since} /></> : undefined}
    >
      {!found && (problem ? <div class="notice"><Refusal problem={problem} /></div> : <p class="quiet">Looking it up…</p>)}
      {dry && <p class="notice plain">It was a dry run: nothing was written, so whatever was measured after is of what ran before.</p>}
      {found && <Measured of={found} />}
      <InStep of={round} />
    </Panel>
  );
}

function Measured({ of: found }: { of: Outcome }) {
  const rows = rowsOf(found);
  return (
    <>
      {found.gain && <Sentence id="outcome-gain">{gainSentence(found.gain)}</Sentence>}
      <Sentence id="outcome-said">{sentence(found)}</Sentence>
      <Table
        id="outcome-figures"
        caption="Changes predicted and measured"
        rows={rows}
        keyOf={({ name }) => name}
        tall
        columns={[
          { name: "Figure", cell: ({ name }) => name },
          { name: "Predicted", cell: ({ predicted, show }) => both(predicted, show) },
          { name: "change", cell: ({ predicted, good }) => told(predicted, good).text, tone: ({ predicted, good }) => told(predicted, good).tone },
          { name: "Measured", cell: ({ measured, tell }) => both(measured, tell) },
          { name: "change ", cell: ({ measured, good }) => told(measured, good).text, tone: ({ measured, good }) => told(measured, good).tone },
        ]}
      />
      <p class="quiet">
        The twin predicts bottlenecks over its window; measured are all ports of {found.switches.length} switches, over minutes.
        The changes compare, the figures themselves need not.
        {found.after && <> After: <Time at={found.after.since} /> to <Time at={found.after.until} />, {found.after.ports} ports.</>}
      </p>
    </>
  );
}

function InStep({ of: { measured, incumbent } }: { of: Recommendation }) {
  const { residual_ratio: residual, queue_mean_bytes: queue } = measured;
  if (residual === null || queue === null) return null;
  return (
    <p class="quiet">
      When it was worked out, the twin put the mean queue of what ran at {bytes(measured.predicted_queue_mean_bytes ?? incumbent.queue_mean_bytes)}; telemetry had measured {bytes(queue)} ({signed(residual)}).
    </p>
  );
}
