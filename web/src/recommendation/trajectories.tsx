// How deep the deepest queues were predicted to be over the window, one at a time, under two watermarks.
import { useState } from "preact/hooks";
import { Chart } from "../parts/chart.tsx";
import { bytes, seconds } from "../format.ts";

export interface TwoDepths {
  switch: string;
  port: string;
  now: readonly number[] | null;
  better: readonly number[];
}

interface Props {
  id: string;
  step_s: number;
  queues: readonly TwoDepths[]; // the deepest first
  was?: string;
  name?: string;
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

export function QueueTrajectories({ id, step_s, queues, was = "now", name = "recommended" }: Props) {
  const [chosen, choose] = useState(0);
  const found = queues[Math.min(chosen, queues.length - 1)];
  if (!found) return <p class="quiet">No queue was deep enough to draw.</p>;
  const xs = found.better.map((_, step) => step * step_s);
  const means = [
    ...(found.now ? [`${bytes(mean(found.now))} ${was}`] : []),
    `${bytes(mean(found.better))} ${name}`,
  ].join(", ");
  return (
    <>
      <div class="split">
        <label class="field">
          Queue
          <select value={String(chosen)} onChange={(event) => choose(Number(event.currentTarget.value))}>
            {queues.map((one, place) => (
              <option key={`${one.switch} ${one.port}`} value={String(place)}>
                {one.switch} {one.port}
              </option>
            ))}
          </select>
        </label>
        <p class="quiet">Mean here: {means}</p>
      </div>
      <Chart
        id={id}
        label={`Predicted depth of the queue of ${found.switch} ${found.port} over the window. Mean: ${means}.`}
        x={{ name: "time in the window", show: seconds, low: 0 }}
        xs={xs}
        y={{ name: "queue depth", show: bytes, low: 0 }}
        height={250}
        series={[
          { name: was, ink: "old", dashed: true, values: found.now ?? xs.map(() => null) },
          { name, ink: "new", values: found.better },
        ]}
      />
    </>
  );
}
