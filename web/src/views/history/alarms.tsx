// The alarms that were: what, at its worst, from when to when.
import { Panel } from "../../parts/panel.tsx";
import { Status } from "../../parts/status.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import type { PastAlarms } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { seconds, several } from "../../format.ts";
import { Past, useRange } from "./picked.tsx";

export function PastAlarmsPanel() {
  const { since, picker } = useRange("week", ["day", "week", "quarter"]);
  const alarms = useLive<PastAlarms>(looks.pastAlarms(since));
  return (
    <Panel id="past-alarms" title="Alarms that were" note={picker}>
      <Past of={alarms} empty={({ alarms: all }) => all.length === 0} none="No alarm was raised in this time.">
        {({ alarms: all }) => (
          <Table
            caption={`${several(all.length, "alarm")}, the last raised first`}
            rows={all}
            keyOf={(one) => one.kind + one.subject + one.raised}
            columns={[
              { name: "What", cell: (one) => <>{one.subject}<small>{one.sentence}{one.why && ` ${one.why}`}</small></> },
              { name: "Level", cell: (one) => <Status tone={one.level} spoken={false}>{one.level}</Status>, words: true },
              { name: "Raised", cell: (one) => <Time at={one.raised} /> },
              { name: "Ended", cell: (one) => (one.ended ? <Time at={one.ended} /> : "still there") },
              { name: "Lasted", cell: (one) => (one.ended ? seconds((Date.parse(one.ended) - Date.parse(one.raised)) / 1000) : "–") },
            ]}
          />
        )}
      </Past>
    </Panel>
  );
}
