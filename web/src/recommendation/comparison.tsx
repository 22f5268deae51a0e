// What the twin predicts for what runs and for another watermark, figure by figure.
import { ratio } from "../format.ts";
import { Table } from "../parts/table.tsx";
import type { Prediction, Probe, ScoreName } from "../service/documents.ts";
import { type Compared, change, comparedBy } from "./figures.ts";

interface Props {
  id?: string;
  caption: string;
  now: Prediction;
  better: Prediction;
  by: ScoreName | undefined;
  names?: [now: string, better: string];
}

export function Comparison({ id, caption, now, better, by, names: [left, right] = ["Now", "New"] }: Props) {
  const rows = comparedBy(by).filter(({ pick }) => pick(now) !== null || pick(better) !== null);
  const told = (one: Compared) => change(one.pick(now), one.pick(better), one);
  return (
    <>
      <Table
        {...(id ? { id } : {})}
        caption={caption}
        rows={rows}
        keyOf={({ name }) => name}
        tall
        columns={[
          { name: "Figure", cell: ({ name }) => name },
          { name: left, cell: ({ pick, show }) => show(pick(now), now) },
          { name: right, cell: ({ pick, show }) => show(pick(better), better) },
          { name: "Change", cell: (one) => told(one).text, tone: (one) => told(one).tone },
        ]}
      />
      <ProbeByPath now={now} better={better} names={[left, right]} />
    </>
  );
}

function ProbeByPath({ now, better, names: [left, right] }: { now: Prediction; better: Prediction; names: [string, string] }) {
  const [before, after] = [now.probe_by_path ?? {}, better.probe_by_path ?? {}];
  const paths = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  if (paths.length === 0) return null;
  const both = (one: Probe | undefined) => `${ratio(one?.p50)} / ${ratio(one?.p99)}`;
  const told = (path: string) => change(before[path]?.p99 ?? null, after[path]?.p99 ?? null, { good: -1 });
  return (
    <details class="by-path">
      <summary>A small message by length of its path</summary>
      <Table
        caption="Slowdown of a small message, median / 99 %"
        rows={paths}
        keyOf={(path) => path}
        tall
        columns={[
          { name: "Path", cell: (path) => path },
          { name: `${left}, median / 99 %`, cell: (path) => both(before[path]) },
          { name: `${right}, median / 99 %`, cell: (path) => both(after[path]) },
          { name: "Change of 99 %", cell: (path) => told(path).text, tone: (path) => told(path).tone },
        ]}
      />
      <p class="quiet">A small message is here one full packet that crosses the fabric at a random moment; 1× is an empty fabric.</p>
    </details>
  );
}
