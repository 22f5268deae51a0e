// The second opinion: what the packet engine said of the incumbent and the best few, and where the engines differ.
import { Panel } from "../../parts/panel.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Table } from "../../parts/table.tsx";
import { bytes, gbps, percent, ratio, sameWatermark, seconds, watermark } from "../../format.ts";
import { worth } from "../../recommendation/figures.ts";
import type { Prediction, Recommendation } from "../../service/documents.ts";
import { standing } from "./axes.ts";

export function OpinionPanel({ of: round }: { of: Recommendation }) {
  const opinion = round.second_opinion;
  if (!opinion) return null;
  const { engine } = opinion;
  const both = (one: { first: Prediction; second: Prediction }, show: (of: Prediction) => string) => (
    <>{show(one.first)} <span class="absent">|</span> {show(one.second)}</>
  );
  return (
    <Panel
      id="opinion"
      title="Second opinion"
      note={`${engine}, ${seconds(opinion.window_s)}${opinion.cut ? " of the window" : ""}, ${opinion.seeds} ${opinion.seeds === 1 ? "seed" : "seeds"}`}
    >
      <Sentence>{opinion.sentence}</Sentence>
      <Table
        caption={`The best few by ${round.engine} and by ${engine}`}
        rows={opinion.candidates}
        keyOf={({ first }) => `${first.kmin_bytes} ${first.kmax_bytes} ${first.pmax}`}
        tall
        columns={[
          {
            name: "Kmin / Kmax / Pmax",
            cell: ({ first }) => (
              <>
                {watermark(first)}
                {sameWatermark(first, round.incumbent) && <span class="tag">{standing(round) ? "runs now" : "ran before"}</span>}
                {sameWatermark(first, opinion.pick) && <span class="tag">pick of both</span>}
                {opinion.changed_pick && sameWatermark(first, opinion.first_pick) && <span class="tag">first pick</span>}
              </>
            ),
          },
          { name: "Mean queue", cell: (one) => both(one, (of) => bytes(of.queue_mean_bytes)) },
          { name: "99 % queue", cell: (one) => both(one, (of) => bytes(of.queue_p99_bytes)) },
          { name: "Goodput", cell: (one) => both(one, (of) => gbps(of.goodput_gbps)) },
          { name: "Mice, 99 %", cell: (one) => both(one, (of) => ratio(of.slowdown.mice.p99)) },
          { name: "Small message, 99 %", cell: (one) => both(one, (of) => ratio(of.probe_slowdown?.p99)) },
          { name: "Elephants, mean", cell: (one) => both(one, (of) => ratio(of.slowdown.elephant.mean)) },
          { name: round.score_is === "gain" ? "Gain by both" : "Score", cell: ({ first }) => worth(round.candidates.find((one) => sameWatermark(one, first)) ?? first, round.score_is) },
        ]}
      />
      <p class="quiet">
        Left of the bar {round.engine}, right of it {engine}. They differ most by {percent(opinion.disagreement_ratio)}; up to {percent(opinion.margin)} counts as agreeing.
      </p>
    </Panel>
  );
}
