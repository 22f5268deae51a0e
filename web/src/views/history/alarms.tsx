// Past alarms: what, at its worst, from when to when.
import { Panel } from "../../parts/panel.tsx";
import { Status } from "../../parts/status.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import type { PastAlarm, PastAlarms } from "../../service/documents.ts";
import { useKept } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { seconds, several } from "../../format.ts";
import { Past, useRange } from "./picked.tsx";

export function PastAlarmsPanel() {
  const { since, picker } = useRange("week", ["day", "week", "quarter"]);
  const alarms = useKept<PastAlarms>(looks.pastAlarms(since));
  return (
    <Panel id="past-alarms" title="Past alarms" note={picker}>
      <Past of={alarms} empty={({ alarms: all }) => all.length === 0} none="No alarm was raised in this time.">
        {({ alarms: all }) => (
          <Table
            caption={`${several(all.length, "alarm")}, the last raised first`}
            rows={all}
            keyOf={(one) => one.id}
            columns={[
              { name: "What", cell: (one) => <>{named(one)}<small>{told(one)}</small></> },
              { name: "Level", cell: (one) => <Status tone={one.level} spoken={false}>{one.level}</Status>, words: true },
              { name: "Raised", cell: (one) => <Time at={one.raised} /> },
              { name: "Ended", cell: (one) => (one.ended ? <Time at={one.ended} /> : "still active") },
              { name: "Lasted", cell: (one) => (one.ended ? seconds((Date.parse(one.ended) - Date.parse(one.raised)) / 1000) : "–") },
            ]}
          />
        )}
      </Past>
    </Panel>
  );
}

function named({ receiver, subject, subject_count: number, switch: at }: PastAlarm): string {
  if (receiver) return `Incast to ${receiver}`;
  return number > 1 && at ? `${at}, ${several(number, "port or queue", "ports and queues")}` : subject;
}

const told = ({ sentence, why, acknowledged }: PastAlarm): string =>
  [sentence, ...(why ? [why] : []), ...(acknowledged ? [`acknowledged by ${acknowledged.by}`] : [])].join("; ");
