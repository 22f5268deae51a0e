// A button that changes something. It cannot be pressed while the service is away or the caller may not act, and says so.
import type { ComponentChildren, MouseEventHandler } from "preact";
import { useHindrance } from "../service/fresh.ts";

interface Props {
  id?: string;
  class?: string;
  title?: string;
  label?: string;
  disabled?: boolean;
  says?: boolean; // the reason stands beside it; else it is its title
  onClick: MouseEventHandler<HTMLButtonElement>;
  children: ComponentChildren;
}

export function ActButton({ id, class: kind, title, label, disabled = false, says = false, onClick, children }: Props) {
  const why = useHindrance();
  const hint = why ?? title;
  return (
    <>
      <button
        {...(id ? { id } : {})}
        type="button"
        class={kind ?? ""}
        aria-label={label}
        {...(hint ? { title: hint } : {})}
        disabled={disabled || why !== null}
        onClick={onClick}
      >
        {children}
      </button>
      {says && why && <span class="quiet">{why}</span>}
    </>
  );
}
