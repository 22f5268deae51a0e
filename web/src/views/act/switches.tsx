// The switches: what each runs, what was set on it from here, and whether somebody else has set it since.
import { useState } from "preact/hooks";
import { ActButton } from "../../parts/act-button.tsx";
import { Panel } from "../../parts/panel.tsx";
import { natural } from "../../parts/order.ts";
import { Table } from "../../parts/table.tsx";
import { act } from "../../service/acts.ts";
import type { SwitchState } from "../../service/documents.ts";
import { useSwitches } from "../../service/switches.ts";
import { count, watermark } from "../../format.ts";
import { assumed, runs, together } from "./switch-words.ts";

const asked = (one: SwitchState) => (assumed(one) ? "not asked" : one.reachable ? "yes" : "no");
const urgency = (one: SwitchState) => (one.drifted ? 0 : one.reachable ? 2 : 1);

export function SwitchesPanel() {
  const switches = useSwitches() ?? [];
  if (switches.length === 0) return null;
  const [drifted, away] = [switches.filter((one) => one.drifted).length, switches.filter((one) => !one.reachable).length];
  const note = [
    `${count(switches.length)} in all`,
    ...(drifted ? [`${count(drifted)} drifted`] : []),
    ...(away ? [`${count(away)} not reachable`] : []),
  ].join(", ");
  return (
    <Panel id="switches" title="Switches" note={note} noteId="switches-note">
      <p id="switches-run">{together(switches)}</p>
      <Table
        caption="Switches, the drifted and unreachable first"
        rows={[...switches].sort((one, other) => urgency(one) - urgency(other) || natural(one.name, other.name))}
        keyOf={({ name }) => name}
        text={(one) => `${one.name} ${one.adapter} ${one.reachable ? "" : "not reachable"} ${one.drifted ? "drifted" : ""} ${runs(one)}`}
        columns={[
          { name: "Switch", cell: (one) => <>{one.name}{!one.reachable && one.detail && <small>{one.detail}</small>}</>, by: ({ name }) => name },
          { name: "Reachable", cell: asked, tone: (one) => (one.reachable ? "" : "worse"), words: true, by: (one) => (one.reachable ? 1 : 0) },
          { name: "Drift", cell: (one) => (one.drifted ? <>drifted <Adopt name={one.name} /></> : one.reachable && !assumed(one) ? "no" : "–"), tone: (one) => (one.drifted ? "worse" : ""), words: true, by: (one) => (one.drifted ? 0 : 1) },
          { name: "Runs", cell: (one) => <>{runs(one)}{!one.reachable && one.running && <small> as last read</small>}</>, words: true, by: (one) => one.running?.kmin_bytes ?? null },
          { name: "Set from here", cell: (one) => (one.set_to ? watermark(one.set_to) : "–"), words: true },
          { name: "Adapter", cell: (one) => one.adapter, words: true, by: (one) => one.adapter },
          { name: "Changes are", cell: (one) => (one.writes ? "written" : "dry run"), words: true },
        ]}
      />
    </Panel>
  );
}

function Adopt({ name }: { name: string }) {
  const [busy, work] = useState(false);
  const adopt = async (event: { currentTarget: HTMLElement }) => {
    const region = event.currentTarget.closest<HTMLElement>(".scroll");
    work(true);
    if (await act(`/v1/switches/${encodeURIComponent(name)}/adopt`)) region?.focus(); // the button goes
    work(false);
  };
  return (
    <ActButton class="small" disabled={busy} label={`Adopt what ${name} runs`} title="Take what it runs now as wanted" onClick={adopt}>Adopt</ActButton>
  );
}
