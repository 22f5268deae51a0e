// One question at a time before something is done, answered yes or no; Escape says no.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { silent } from "../service/fresh.ts";

export interface Question {
  title: string;
  text: string;
  names?: readonly string[];
  namesAre?: string;
  facts?: readonly string[]; // what it is worth, say
  yes: string;
  over?: () => string | null; // why it can no longer be answered with yes
}

const asked = signal<(Question & { answer: (yes: boolean) => void }) | null>(null);

export function confirmed(question: Question): Promise<boolean> {
  if (asked.value) return Promise.resolve(false);
  return new Promise((answer) => (asked.value = { ...question, answer }));
}

export function Asking() {
  const dialog = useRef<HTMLDialogElement>(null);
  const question = asked.value;
  useEffect(() => {
    if (question && dialog.current) {
      dialog.current.returnValue = "";
      dialog.current.showModal(); // and gives the focus back when it closes
    }
  }, [question]);
  if (!question) return null;
  const close = () => {
    const yes = dialog.current?.returnValue === "yes";
    asked.value = null;
    question.answer(yes);
  };
  const names = question.names ?? [];
  const over = silent.value ? "The service does not answer." : (question.over?.() ?? null);
  return (
    <dialog ref={dialog} aria-labelledby="ask-title" aria-describedby="ask-text" onClose={close}>
      <form method="dialog">
        <h2 id="ask-title">{question.title}</h2>
        <p id="ask-text">{question.text}</p>
        {question.facts && question.facts.length > 0 && <p id="ask-facts">{question.facts.join(" · ")}</p>}
        {names.length > 0 && (
          <ul tabIndex={0} aria-label={question.namesAre ?? "Switches"}>
            {names.map((name) => <li key={name}>{name}</li>)}
          </ul>
        )}
        <p id="ask-over" class="notice" role="status" hidden={over === null}>{over}</p>
        <div class="row">
          <button value="no" autofocus>Cancel</button>
          <button value="yes" class="primary" disabled={over !== null}>{question.yes}</button>
        </div>
      </form>
    </dialog>
  );
}
