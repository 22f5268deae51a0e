// The header: where one is, how the service does, whether switches are frozen, and the button for a round.
import { useState } from "preact/hooks";
import { ActButton } from "../parts/act-button.tsx";
import { Status, type Tone } from "../parts/status.tsx";
import { address } from "../router.ts";
import { act } from "../service/acts.ts";
import { asksForToken } from "../service/client.ts";
import type { Alarms, Freeze, Readiness } from "../service/documents.ts";
import { asOf, silent } from "../service/fresh.ts";
import { useLive } from "../service/live.ts";
import * as looks from "../service/looks.ts";
import { count, several, when } from "../format.ts";
import { type View, views } from "../views.ts";
import { frozenBy } from "../views/act/rollout-words.ts";
import { roundSaid } from "./round-words.ts";
import { round } from "./round.ts";

export function Header({ current }: { current: View }) {
  const readiness = useLive<Readiness>(looks.readiness).value;
  const freeze = useLive<Freeze>(looks.freeze).value;
  return (
    <header>
      <div class="brand">
        <img src="/assets/icon.svg" alt="" width="26" height="26" />
        <span class="name">ecntwin</span>
        {readiness && <small id="version">{readiness.version}</small>}
      </div>
      <nav aria-label="Views">
        {views.map((view) => (
          <a key={view.path} href={address(view.path)} aria-current={view === current ? "page" : undefined}>
            {view.name}
            {view.path === "now" && <AlarmCount />}
          </a>
        ))}
      </nav>
      <div class="status">
        <Live readiness={readiness} />
        {asOf.value !== null && <Status id="as-of" tone="bad">as of {when(new Date(asOf.value).toISOString())}</Status>}
        {freeze && (
          <Status id="frozen" tone={freeze.frozen ? "strong" : "plain"}>
            {freeze.unknown ? "Frozen or not is unknown" : freeze.frozen ? frozenBy(freeze) : "Not frozen"}
          </Status>
        )}
        <Tune readiness={readiness} />
      </div>
    </header>
  );
}

// Of what nobody looks after yet, and nobody asked not to be told of.
function AlarmCount() {
  const alarms = useLive<Alarms>(looks.alarms).value;
  if (!alarms) return null;
  const { open_critical: critical, open_warning: warning, open_causes: total } = alarms;
  if (total === 0) return null;
  const all = critical + warning;
  const grouped = total < all;
  return (
    <span class={`bubble ${critical ? "critical" : "warning"}`}>
      {count(total)}
      <span class="unseen">
        {" "}
        {(grouped ? "cause" : "alarm") + (total === 1 ? " asks" : "s ask")} for attention, {grouped && `${several(all, "alarm")}, `}
        {several(critical, "critical", "critical")}
      </span>
    </span>
  );
}

function Live({ readiness }: { readiness: Readiness | undefined }) {
  let tone: Tone = "plain";
  let text = "connecting";
  const busy = round.value;
  if (asksForToken.value) text = "signed out";
  else if (silent.value) [tone, text] = ["bad", "not reachable"];
  else if (busy) [tone, text] = ["busy", "round under way"];
  else if (readiness) [tone, text] = readiness.ready ? ["good", "ready to advise"] : ["plain", "cannot advise yet"];
  return <Status id="live" tone={tone} title={busy ? roundSaid(busy) : (readiness?.reasons.join(" ") ?? "")}>{text}</Status>;
}

function Tune({ readiness }: { readiness: Readiness | undefined }) {
  const [asked, ask] = useState(false);
  const tune = async () => {
    ask(true);
    await act("/v1/tune");
    ask(false);
  };
  const without = !readiness?.measured || readiness.stale;
  return (
    <ActButton id="tune" class="primary" title={without ? (readiness?.reasons.join(" ") ?? "") : ""} disabled={without || asked || round.value !== null} onClick={tune}>
      Tune now
    </ActButton>
  );
}
