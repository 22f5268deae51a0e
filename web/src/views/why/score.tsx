// The score min–max over its round, which decided before gains did: its terms of what runs and of what is recommended,
// with their weights.
import { Panel } from "../../parts/panel.tsx";
import { Sentence } from "../../parts/sentence.tsx";
import { Table } from "../../parts/table.tsx";
import { few, score } from "../../format.ts";
import type { Candidate, Recommendation } from "../../service/documents.ts";
import { incumbentOf, standing, winnerOf } from "./axes.ts";
import { TERMS, type TermRow, termRows, wonBy } from "./terms.ts";

export function ScorePanel({ of: round }: { of: Recommendation }) {
  const { margin, score_gain: gain } = round.improvement;
  return (
    <Panel id="score" title={round.changes ? "Why it won" : "Why what runs stays"} note="score min–max of its round">
      {!round.changes && (
        <p class="quiet">The best candidate scores {score(gain)} more than what runs; a change had to gain {score(margin)} at least.</p>
      )}
      <Terms of={round} />
    </Panel>
  );
}

// A score means something within its round only: nothing of it is drawn beside gains.
export function Terms({ of: round }: { of: Recommendation }) {
  const [now, better] = [incumbentOf(round), winnerOf(round)];
  if (!now || !better) return null;
  const rows = termRows(round, now, better);
  const won = round.changes ? wonBy(round, rows) : null;
  const byGain = round.score_is === "gain";
  const of = (one: Candidate) => (byGain ? one.score_normalised : one.score) ?? null;
  const [before, after] = [of(now), of(better)];
  const total: TermRow = {
    name: "score",
    weight: null,
    now: before,
    better: after,
    counts: before === null || after === null ? null : after - before,
  };
  const largest = Math.max(...rows.map(({ counts }) => Math.abs(counts ?? 0)), 1e-9);
  return (
    <>
      {won && (byGain ? <p class="quiet">{won}</p> : <Sentence id="won">{won}</Sentence>)}
      <Table
        id={byGain ? "normalised" : "terms"}
        caption="Terms of the score"
        rows={[...rows, total]}
        keyOf={({ name }) => name}
        tall
        columns={[
          { name: "Term", cell: ({ name }) => (name === "score" ? <b>Score</b> : TERMS[name] ?? name) },
          { name: "Weight", cell: ({ name, weight }) => (name === "score" ? "" : weight === null ? "–" : `${name === "throughput" ? "+" : "−"}${few(weight)}`) },
          { name: standing(round) ? "Now" : "Before", cell: ({ now: value }) => score(value) },
          { name: "Recommended", cell: ({ better: value }) => score(value) },
          {
            name: "Change of score",
            cell: ({ name, counts }) => (
              <span class="balance">
                {name !== "score" && counts !== null && Math.abs(counts) > 5e-4 && <Balance share={counts / largest} />}
                {counts === null ? "–" : `${counts > 0 ? "+" : ""}${score(counts)}`}
              </span>
            ),
            tone: ({ counts }) => (counts === null || Math.abs(counts) < 0.0005 ? "" : counts > 0 ? "better" : "worse"),
          },
        ]}
      />
      <p class="quiet">
        Each term is 0 at the least of all candidates and 1 at the most, less where the candidates hardly differ.{" "}
        {round.throughput_is === "slowdown_and_goodput" && "Throughput is elephants' speed and goodput, weighed by flows. "}
        {round.queue_is === "log_queue" ? "Queue is the logarithm of the mean: half is as good anywhere." : "In the queue's place stands the 99th percentile slowdown of mice."}
        {round.second_opinion && " Terms are on the second engine's scale."}
      </p>
    </>
  );
}

// To the right of the middle it adds, to the left it takes.
function Balance({ share }: { share: number }) {
  const length = 30 * Math.min(1, Math.abs(share));
  return (
    <svg class={share >= 0 ? "ink-new" : "ink-bad"} width="64" height="10" viewBox="0 0 64 10" aria-hidden="true">
      <rect x={share >= 0 ? 32 : 32 - length} y="1.5" width={length} height="7" fill="currentColor" />
      <path class="middle" d="M32 0V10" />
    </svg>
  );
}
