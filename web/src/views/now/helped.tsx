// Did the last change help? The gain predicted and measured of the newest rollout, and what telemetry saw before and after.
import { Answer } from "../../parts/answer.tsx";
import { Figure, Figures } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Time } from "../../parts/time.tsx";
import { change } from "../../recommendation/figures.ts";
import { GainPair } from "../../recommendation/gain-pair.tsx";
import { address } from "../../router.ts";
import type { Figure as Value, MeasuredFigures, Outcome, ListedRollout } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { bits, bytes, portion, watermark } from "../../format.ts";
import { helped } from "./helped-words.ts";

type Seen = "queue_mean_bytes" | "throughput_bytes_per_s" | "pause_share";
const FIGURES: readonly { name: string; key: Seen; show: (value: Value) => string; good: -1 | 1 }[] = [
  { name: "Mean queue", key: "queue_mean_bytes", show: bytes, good: -1 },
  { name: "Throughput", key: "throughput_bytes_per_s", show: bits, good: 1 },
  { name: "Time paused", key: "pause_share", show: portion, good: -1 },
];

export function HelpedPanel({ newest }: { newest: ListedRollout | undefined }) {
  const outcome = useLive<Outcome>(newest?.recommendation ? looks.outcome(newest.recommendation) : null).value;
  if (!newest) {
    return (
      <Panel id="helped" title="Did the last change help?" class="statement plain">
        <Answer tone="plain">Nothing was changed yet</Answer>
        <p class="quiet">Once a rollout has set a switch, what it was predicted to gain and what was measured after it stand here.</p>
      </Panel>
    );
  }
  const { answer, tone, sentence } = helped(newest, outcome?.gain);
  const { target } = newest.summary;
  return (
    <Panel id="helped" title="Did the last change help?" class={`statement ${tone}`} note={<Time at={newest.since} />}>
      <Answer id="judged" tone={tone}>{answer}</Answer>
      <p>{sentence}</p>
      {outcome?.gain && <GainPair of={outcome.gain} />}
      {outcome?.before && outcome.after && <BeforeAfter before={outcome.before} after={outcome.after} />}
      <div class="split bottom">
        <div class="row">
          <a class="button" href={address("act")}>The rollout</a>
          {newest.recommendation && <a class="button" href={address("why", newest.recommendation)}>What came of it</a>}
        </div>
        {target && <p class="quiet">{watermark(target)}</p>}
      </div>
    </Panel>
  );
}

function BeforeAfter({ before, after }: { before: MeasuredFigures; after: MeasuredFigures }) {
  return (
    <section aria-labelledby="seen-before-after">
      <h3 id="seen-before-after">Measured on its switches, before → after</h3>
      <Figures class="three">
        {FIGURES.filter(({ key }) => before[key] !== null && after[key] !== null).map(({ name, key, show, good }) => {
          const { text, tone } = change(before[key], after[key], { good });
          return <Figure key={key} name={name} value={text} tone={tone || undefined} beside={`${show(before[key])} → ${show(after[key])}`} />;
        })}
      </Figures>
    </section>
  );
}
