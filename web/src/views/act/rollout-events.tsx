// All that happened to a rollout, the newest first; asked for while it is open.
import { useState } from "preact/hooks";
import type { RolloutEvent } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { count, when } from "../../format.ts";
import { sentence } from "./rollout-words.ts";

const MOST = 300;

export function Happened({ id }: { id: string }) {
  const [open, show] = useState(false);
  const events = useLive<{ events: RolloutEvent[] }>(open ? looks.happened(id) : null).value?.events ?? [];
  const shown = events.map((one, index) => ({ ...one, index })).slice(-MOST).reverse();
  const more = events.length - shown.length;
  return (
    <details id="rollout-events" onToggle={(event) => show(event.currentTarget.open)}>
      <summary>All that happened</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="All that happened">
        <ol id="rollout-happened" class="happened">
          {shown.map(({ index, at, what, switch: name, detail }) => (
            <li key={index}>
              <time dateTime={at} class="quiet">{when(at)}</time>
              <span><b>{[name, sentence(what)].filter(Boolean).join(" ")}</b>{detail && `: ${detail}`}</span>
            </li>
          ))}
        </ol>
        {more > 0 && <p class="quiet">{count(more)} earlier ones are at /v1/rollouts/{id}</p>}
      </div>
    </details>
  );
}
