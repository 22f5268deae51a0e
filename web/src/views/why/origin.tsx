// Where a recommendation comes from: enough to get the same one again.
import type { ComponentChildren } from "preact";
import { Panel } from "../../parts/panel.tsx";
import { Time } from "../../parts/time.tsx";
import { CLASSES, count, decision, few, gain, named, percent, score, seconds, watermark } from "../../format.ts";
import type { Policy, Recommendation } from "../../service/documents.ts";
import { Table } from "../../parts/table.tsx";
import { wholeWindow } from "./axes.ts";
import { draws } from "./found.ts";
import { TERMS } from "./terms.ts";

const policyText = ({ name, bulk, delay, harm_price: price, probe = 0.5 }: Policy) => {
  const delays = probe === 0.5 ? `small-message delay ${few(delay)}` : `mice ${few(delay * (1 - probe))}, bare packets ${few(delay * probe)}`;
  return `${name}: bulk speed ${few(bulk)}, ${delays}; a share paused or lost × ${few(price)}`;
};

export function OriginPanel({ of: round }: { of: Recommendation }) {
  const classes = (Object.keys(CLASSES) as (keyof typeof CLASSES)[])
    .map((one) => `${count(round.flows[one])} ${CLASSES[one].toLowerCase()}`)
    .join(", ");
  const weights = Object.entries(round.weights ?? {}).map(([name, weight]) => `${(TERMS[name] ?? name).toLowerCase()} ${few(weight)}`);
  const tried = draws(round.candidates);
  const decided = decision(round.status);
  const pairs: [string, ComponentChildren][] = [
    ["Id", <code>{round.id}</code>],
    ["Made", <Time at={round.created} />],
    ["Decision", round.decided_by && round.decided_at ? <>{decided} by {round.decided_by}, <Time at={round.decided_at} /></> : decided],
    ["Engine", round.second_opinion ? `${round.engine}, then ${round.second_opinion.engine}` : round.engine],
    ["Seed", String(round.seed)],
    ["Version", round.version],
    ["Flows", `${classes} in the window`],
    ["Replayed", `${seconds(wholeWindow(round))} of traffic at most for one candidate`],
    ["Search", `${count(round.candidate_count)} candidates in ${seconds(round.wall_s)}${tried && `: ${tried}`}; the biased ones around what ${(CLASSES[round.dominant_class] ?? round.dominant_class).toLowerCase()} ask for (λ ${round.lambda})`],
    ...(round.policy && round.score_is === "gain" ? ([["Policy", policyText(round.policy)]] as [string, string][]) : []),
    ...(round.score_is !== "gain" && weights.length ? ([["Weights", weights.join(", ")]] as [string, string][]) : []),
    ...(round.switches.length ? ([["Switches", named(round.switches)]] as [string, string][]) : []),
  ];
  return (
    <Panel id="provenance" title="Where it comes from">
      <dl class="pairs wide">
        {pairs.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {round.parts.length > 1 && (
        <Table
          caption="Parts of the fabric judged alone"
          rows={round.parts}
          keyOf={({ name }) => name}
          columns={[
            { name: "Part", cell: ({ name, sentence }) => <>{name}<small>{sentence}</small></> },
            { name: "Traffic", cell: ({ traffic_share: share }) => percent(share) },
            { name: "Flows", cell: ({ flows }) => count(flows) },
            { name: "Alone it would run", cell: ({ recommendation }) => watermark(recommendation) },
            { name: round.score_is === "gain" ? "Gain" : "Score gained", cell: ({ score_gain: gained }) => (round.score_is === "gain" ? gain(gained) : score(gained)) },
          ]}
        />
      )}
    </Panel>
  );
}
