// What keeps a recommendation back, or has ended it, and what else is to be known before one decides.
import type { Recommendation } from "../service/documents.ts";
import { Validity } from "./validity.tsx";
import { CLASSES, count, seconds, several, when } from "../format.ts";

export function Remarks({ of }: { of: Recommendation }) {
  return (
    <>
      <Urgent of={of} />
      <Notes of={of} />
    </>
  );
}

export function Urgent({ of }: { of: Recommendation }) {
  return (
    <>
      {of.second_opinion?.disagrees && <p id="second-opinion" class="notice">Second opinion: {of.second_opinion.sentence}</p>}
      {of.caution && <p id="caution" class="notice">{of.caution}</p>}
      <Validity of={of} />
    </>
  );
}

export function Notes({ of }: { of: Recommendation }) {
  const opinion = of.second_opinion;
  return (
    <>
      {opinion && !opinion.disagrees && <p id="second-opinion" class="quiet">Second opinion: {opinion.sentence}</p>}
      {of.notes.map((note) => <p key={note} class="quiet">{note}</p>)}
    </>
  );
}

export function Origin({ of }: { of: Recommendation }) {
  return (
    <p id="origin" class="quiet">
      {when(of.created)} · {(CLASSES[of.dominant_class] ?? of.dominant_class).toLowerCase()} dominate ·{" "}
      {count(of.candidate_count)} candidates in {seconds(of.wall_s)} · seed {of.seed}
    </p>
  );
}

// What was, or would have been, set and read back, switch by switch.
export function Pushed({ of }: { of: Recommendation }) {
  if (of.pushed.length === 0) return null;
  const dry = of.pushed.every((one) => !one.writes);
  const number = several(of.pushed.length, "switch", "switches");
  return (
    <details id="pushed">
      <summary>{dry ? `Dry run: what would have been set on ${number}` : `Set and read back on ${number}`}</summary>
      {of.pushed.map((one) => <pre key={one.switch} tabIndex={0}>{one.diff || `${one.switch}: nothing to change`}</pre>)}
    </details>
  );
}
