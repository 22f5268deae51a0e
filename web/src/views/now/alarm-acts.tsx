// What people say of an alarm: that they look after it, or that it shall notify nobody for a while.
import { useState } from "preact/hooks";
import { ActButton } from "../../parts/act-button.tsx";
import { act } from "../../service/acts.ts";
import type { Alarm, Silence } from "../../service/documents.ts";
import { count, when } from "../../format.ts";
import { isKnown, kindOf } from "./alarm-words.ts";

const LENGTHS = [
  { seconds: 3_600, name: "1 hour" },
  { seconds: 4 * 3_600, name: "4 hours" },
  { seconds: 86_400, name: "1 day" },
  { seconds: 7 * 86_400, name: "7 days" },
];

const noted = (text: string | null) => (text ? `: ${text}` : "");

// Who has said what, and how to take it back.
export function Said({ one }: { one: Alarm }) {
  const { acknowledged, silenced } = one;
  return (
    <>
      {acknowledged && (
        <p class="said">
          Acknowledged by {acknowledged.by} at {when(acknowledged.at)}
          {noted(acknowledged.note)}{" "}
          <ActButton class="small" onClick={() => act(`/v1/alarms/${one.id}/ack`, { method: "DELETE" })}>Withdraw</ActButton>
        </p>
      )}
      {silenced && <p class="said"><Until one={silenced} /></p>}
    </>
  );
}

export function Until({ one }: { one: Silence }) {
  return (
    <>
      Silenced until {when(one.until)} by {one.by}
      {noted(one.note)}{" "}
      <ActButton class="small" onClick={() => act(`/v1/alarms/silences/${one.id}`, { method: "DELETE" })}>End silence</ActButton>
    </>
  );
}

// Of alarms that began at once: who looks after one looks after them all. Each is silenced by itself.
export function SayAll({ of }: { of: readonly Alarm[] }) {
  const [note, write] = useState("");
  const [busy, work] = useState(false);
  const open = of.filter((one) => !isKnown(one));
  if (open.length === 0) return null;
  const say = async () => {
    work(true);
    const done = await act(open.map(({ id }) => `/v1/alarms/${id}/ack`), { method: "POST", body: note ? { note } : {} });
    work(false);
    if (done) write("");
  };
  return (
    <details class="say">
      <summary>Acknowledge all</summary>
      <form class="row" onSubmit={(event) => event.preventDefault()}>
        <Note of={note} write={write} />
        <ActButton disabled={busy} onClick={say}>Acknowledge {count(open.length)}</ActButton>
      </form>
    </details>
  );
}

function Note({ of, write }: { of: string; write: (note: string) => void }) {
  return (
    <label>
      Note
      <input type="text" maxLength={500} value={of} onInput={(event) => write(event.currentTarget.value)} />
    </label>
  );
}

export function Say({ one }: { one: Alarm }) {
  const [note, write] = useState("");
  const [lasts, choose] = useState(LENGTHS[0]!.seconds);
  const [busy, work] = useState(false);
  const say = async (path: string, body: Record<string, unknown>) => {
    work(true);
    const done = await act(path, { method: "POST", body: note ? { ...body, note } : body });
    work(false);
    if (done) write("");
  };
  const { switch: at } = one;
  // An incast shows in several kinds: it is silenced with all else on its switch.
  const what = one.incast ? { switch: at } : { kind: one.kind, ...(at ? { switch: at } : {}) };
  const silenceable = !one.silenced;
  if (one.acknowledged && !silenceable) return null;
  return (
    <details class="say">
      <summary>{one.acknowledged ? "Silence" : silenceable ? "Acknowledge or silence" : "Acknowledge"}</summary>
      <form class="row" onSubmit={(event) => event.preventDefault()}>
        <Note of={note} write={write} />
        {!one.acknowledged && (
          <ActButton disabled={busy} onClick={() => say(`/v1/alarms/${one.id}/ack`, {})}>Acknowledge</ActButton>
        )}
        {silenceable && (
          <>
            <label>
              For
              <select value={lasts} onChange={(event) => choose(Number(event.currentTarget.value))}>
                {LENGTHS.map(({ seconds, name }) => <option key={seconds} value={seconds}>{name}</option>)}
              </select>
            </label>
            <ActButton says disabled={busy} onClick={() => say("/v1/alarms/silences", { ...what, for_s: lasts })}>
              Silence {one.incast ? `all alarms on ${at}` : kindOf(one.kind) + (at ? ` on ${at}` : "")}
            </ActButton>
          </>
        )}
      </form>
    </details>
  );
}
