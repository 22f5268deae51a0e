// A part of a view: a region with its heading, and a note beside it.
import type { ComponentChildren } from "preact";

interface Props {
  id: string;
  title: string;
  note?: ComponentChildren;
  noteId?: string;
  class?: string;
  children: ComponentChildren;
}

export function Panel({ id, title, note, noteId, class: kind = "", children }: Props) {
  return (
    <section id={id} class={`panel ${kind}`} aria-labelledby={`${id}-title`}>
      <div class="split">
        <h2 id={`${id}-title`}>{title}</h2>
        {note !== undefined && <div class="note" id={noteId}>{note}</div>}
      </div>
      {children}
    </section>
  );
}
