// Elephants that share a port while an equal-cost one has room, and what other paths would do.
import { Panel } from "../../parts/panel.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Table } from "../../parts/table.tsx";
import { gain, gbps } from "../../format.ts";
import type { PathFix, Recommendation } from "../../service/documents.ts";

export function PathsPanel({ of: round }: { of: Recommendation }) {
  const found = round.paths;
  if (!found) return null;
  const advised = found.collisions.some(({ moved }) => moved?.advised);
  return (
    <Panel id="paths" title="Paths of elephants" note={found.collisions.length === 0 ? "none collide" : advised ? "moves advised" : "no move advised"}>
      {found.collisions.length === 0 && <Sentence>{found.sentence}</Sentence>}
      {found.collisions.map((one) => <Collision key={one.sentence} of={one} />)}
      {found.notes.map((note) => <p key={note} class="quiet">{note}</p>)}
      {found.collisions.length > 0 && (
        <p class="quiet">Advice: ecntwin sets no paths. Another UDP source port, or a pinned path, moves a flow.</p>
      )}
    </Panel>
  );
}

function Collision({ of: { switch: name, sentence, ports, moved } }: { of: PathFix }) {
  return (
    <>
      <Sentence>{sentence}</Sentence>
      <Table
        caption={`Equal-cost ports of ${name}`}
        rows={ports}
        keyOf={({ port }) => port}
        columns={[
          { name: "Port", cell: ({ port }) => port },
          { name: "Load", cell: (one) => gbps(one.load_gbps) },
          { name: "Of", cell: (one) => gbps(one.rate_gbps) },
          { name: "Elephants", cell: ({ elephants }) => elephants },
        ]}
      />
      {moved && (
        <>
          <Table
            caption={`Flows to move on ${name}`}
            rows={moved.moves}
            keyOf={(one) => `${one.src} ${one.dst} ${one.sport} ${one.dport}`}
            columns={[
              { name: "Flow", cell: (one) => `${one.src_host} → ${one.dst_host}, UDP ${one.sport} → ${one.dport}` },
              { name: "Now", cell: ({ before }) => before, words: true },
              { name: "Then", cell: ({ after }) => <b>{after}</b>, words: true },
            ]}
          />
          <Table
            caption={`Mean goodput of these elephants by engine, on ${name}`}
            rows={moved.second ? [moved.first, moved.second] : [moved.first]}
            keyOf={({ engine }) => engine}
            columns={[
              { name: "Engine", cell: ({ engine }) => engine },
              { name: "Now", cell: (one) => gbps(one.before_gbps) },
              { name: "Then", cell: (one) => gbps(one.after_gbps) },
            ]}
          />
          <p class="quiet">Gain of all traffic over what runs now: {gain(moved.gain, moved.gain_error)}.</p>
        </>
      )}
    </>
  );
}
