// What telemetry sees of the switches set so far, beside what was before and what was predicted.
import { Table } from "../../parts/table.tsx";
import { now } from "../../service/client.ts";
import { second } from "../../service/fresh.ts";
import type { Figure, FiguresSeen, ListedRollout } from "../../service/documents.ts";
import { bits, bytes, few, portion, seconds } from "../../format.ts";

const FIGURES: readonly { name: string; key: keyof FiguresSeen; show: (value: Figure) => string }[] = [
  { name: "Mean queue", key: "queue_mean_bytes", show: bytes },
  { name: "Throughput", key: "throughput_bytes_per_s", show: bits },
  { name: "Time paused by PFC", key: "pause_share", show: portion },
  { name: "PFC frames a second", key: "pfc_frames_per_s", show: few },
  { name: "Drops a second", key: "drops_per_s", show: few },
];

export function Seen({ of: { before, predicted, seen, phases, ...rollout } }: { of: ListedRollout }) {
  // What is known of before is of this stage's switches, what was seen of those that soaked: they match in a soak only.
  const soaked = phases.findLast((one) => !one.phase.startsWith("roll"))?.phase === "soak";
  if (!soaked) return null;
  const title = rollout.phase.startsWith("roll") ? "What telemetry saw of the switches that were set" : "What telemetry sees of the switches set so far";
  const cell = (value: Figure | undefined, show: (value: Figure) => string, otherwise: string) =>
    value == null ? <span class="absent">{otherwise}</span> : show(value);
  return (
    <section aria-labelledby="seen-title">
      <div class="split">
        <h3 id="seen-title">{title}</h3>
        <TimeLeft of={rollout} />
      </div>
      <Table
        id="rollout-seen"
        caption={title}
        rows={FIGURES}
        keyOf={({ key }) => key}
        tall
        columns={[
          { name: "Figure", cell: ({ name }) => name },
          { name: "Before", cell: ({ key, show }) => cell(before[key], show, "not reported") },
          { name: "Predicted", cell: ({ key, show }) => cell(predicted[key], show, "not predicted") },
          { name: "Seen", cell: ({ key, show }) => cell(seen?.[key], show, seen === null || before[key] !== null ? "not yet" : "not reported") },
        ]}
      />
    </section>
  );
}

function TimeLeft({ of: { phase, soak_from: from, soak_s: whole } }: { of: Pick<ListedRollout, "phase" | "soak_from" | "soak_s"> }) {
  void second.value; // drawn anew each second
  if (phase !== "soak" || !from) return null;
  const left = Math.ceil(whole - (now() - Date.parse(from)) / 1000);
  return (
    <span id="rollout-left" class="quiet" role="timer">
      {left > 0 ? `${seconds(left)} left of ${seconds(whole)}` : "Time is up; waiting for telemetry from after the change"}
    </span>
  );
}
