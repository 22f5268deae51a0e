// A word or two on how something is; its tone is never told by colour alone, the words say it too.
import type { ComponentChildren } from "preact";

export type Tone = "plain" | "good" | "bad" | "busy" | "strong" | "warning" | "critical" | "back";

interface Props {
  tone?: Tone;
  id?: string;
  title?: string;
  spoken?: boolean; // false: not told by screen readers when it changes
  children: ComponentChildren;
}

export function Status({ tone = "plain", id, title, spoken = true, children }: Props) {
  return (
    <span id={id} class={`tone ${tone}`} title={title} role={spoken ? "status" : undefined}>
      {children}
    </span>
  );
}
