// What ended a recommendation, or what keeps it from being approved now; a hold counts down to its end.
import { now } from "../service/client.ts";
import type { Recommendation } from "../service/documents.ts";
import { second } from "../service/fresh.ts";
import { countdown, when } from "../format.ts";

export function Validity({ of: { status, expired, blocked = [], holds } }: { of: Recommendation }) {
  const waits = status === "pending" ? blocked : [];
  const held = status === "pending" ? holds.filter((hold) => !blocked.some(({ reason }) => reason === hold)) : [];
  return (
    <>
      {expired && <p id="expired" class="notice">Expired at {when(expired.at)}: {expired.reason} The next round makes another.</p>}
      {waits.map(({ reason, until }) => (
        <p key={reason} class="notice blocked">{reason} {until && <Left until={until} />}</p>
      ))}
      {held.length > 0 && <p id="holds" class="notice">{held.join(" ")}</p>}
    </>
  );
}

function Left({ until }: { until: string }) {
  void second.value; // drawn anew each second
  return <span role="timer" aria-live="off">{countdown((Date.parse(until) - now()) / 1000)} left.</span>;
}
