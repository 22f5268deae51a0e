// What the twin predicts for what runs and for another watermark, figure by figure.
import { Table } from "../parts/table.tsx";
import type { Prediction } from "../service/documents.ts";
import { COMPARED, type Compared, change } from "./figures.ts";

interface Props {
  id?: string;
  caption: string;
  now: Prediction;
  better: Prediction;
  names?: [now: string, better: string];
  only?: readonly string[]; // names of figures
}

export function Comparison({ id, caption, now, better, names: [left, right] = ["Now", "New"], only }: Props) {
  const rows = COMPARED.filter(
    ({ name, pick }) => (!only || only.includes(name)) && (pick(now) !== null || pick(better) !== null),
  );
  const told = (one: Compared) => change(one.pick(now), one.pick(better), one);
  return (
    <Table
      {...(id ? { id } : {})}
      caption={caption}
      rows={rows}
      keyOf={({ name }) => name}
      tall
      columns={[
        { name: "Figure", cell: ({ name }) => name },
        { name: left, cell: ({ pick, show }) => show(pick(now)) },
        { name: right, cell: ({ pick, show }) => show(pick(better)) },
        { name: "Change", cell: (one) => told(one).text, tone: (one) => told(one).tone },
      ]}
    />
  );
}
