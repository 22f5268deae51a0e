// The answer to a question that a panel asks, large enough to be read from two metres; its sign has a shape of its own.
import type { ComponentChildren } from "preact";
import type { Tone } from "./status.tsx";

const SIGNS: Partial<Record<Tone, string>> = {
  good: "M5 12.5l4.5 4.5L19 7.5",
  busy: "M5 12h13M12.5 6l6 6-6 6",
  warning: "M12 5v9M12 18.2v.6",
  critical: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  bad: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  back: "M19 12H6M11.5 6l-6 6 6 6",
};

export function Answer({ id, tone, children }: { id?: string; tone: Tone; children: ComponentChildren }) {
  return (
    <p id={id} class={`answer ${tone}`}>
      <svg viewBox="0 0 24 24" width="34" height="34" aria-hidden="true">
        <circle class="ground" cx="12" cy="12" r="12" />
        <path d={SIGNS[tone] ?? "M7 12h10"} />
      </svg>
      <span>{children}</span>
    </p>
  );
}
