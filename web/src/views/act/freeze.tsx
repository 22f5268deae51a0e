// The freeze: whether switches may be set, and the button that changes it.
import { useState } from "preact/hooks";
import { ActButton } from "../../parts/act-button.tsx";
import { confirmed } from "../../parts/ask.tsx";
import { Panel } from "../../parts/panel.tsx";
import { act } from "../../service/acts.ts";
import type { Freeze } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { frozenBy } from "./rollout-words.ts";

const FREEZING = {
  title: "Freeze switches?",
  text: "No switch is set and no rollout begins until somebody thaws them, also after a restart. Rollbacks continue.",
  yes: "Freeze",
};
const THAWING = { title: "Thaw switches?", text: "Switches may be set again, and a rollout under way goes on.", yes: "Thaw" };

const title = ({ frozen, unknown }: Freeze): string =>
  unknown ? "Whether switches are frozen is unknown" : frozen ? "Switches are frozen" : "Switches are not frozen";

export function FreezePanel() {
  const freeze = useLive<Freeze>(looks.freeze).value;
  const [busy, work] = useState(false);
  if (!freeze) return null;
  const change = async () => {
    if (!(await confirmed(freeze.frozen ? THAWING : FREEZING))) return;
    work(true);
    await act("/v1/freeze", { method: "PUT", body: { frozen: !freeze.frozen } });
    work(false);
  };
  return (
    <Panel id="freezing" title={title(freeze)} class={freeze.frozen ? "frozen" : ""}>
      <p>
        {freeze.unknown
          ? `${freeze.unknown.charAt(0).toUpperCase()}${freeze.unknown.slice(1)}.`
          : freeze.frozen
          ? `${frozenBy(freeze)}. No switch is set and no rollout begins. Rollbacks continue.`
          : "A freeze stops every rollout where it stands and lets none begin, until somebody thaws them."}
      </p>
      <div class="row">
        <ActButton id="freeze" says disabled={busy || freeze.unknown !== null} onClick={change}>{freeze.frozen ? "Thaw switches" : "Freeze switches"}</ActButton>
      </div>
    </Panel>
  );
}
