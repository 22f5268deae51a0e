// One figure with its name, and what it is compared with. The unit is in the text: see format.ts.
import type { ComponentChildren } from "preact";

interface Props {
  name: string;
  value: ComponentChildren;
  beside?: ComponentChildren;
  tone?: "better" | "worse" | "new" | undefined;
}

export function Figure({ name, value, beside, tone }: Props) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd class={tone ?? ""}>{value}</dd>
      {beside !== undefined && <dd class="beside">{beside}</dd>}
    </div>
  );
}

export function Figures({ id, class: kind = "", children }: { id?: string; class?: string; children: ComponentChildren }) {
  return <dl id={id} class={`figures ${kind}`}>{children}</dl>;
}
