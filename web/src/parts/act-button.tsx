// A button that changes something. It cannot be pressed while the service is away or the caller may not act, and says so.
import type { ComponentChildren, TargetedMouseEvent } from "preact";
import { useRef } from "preact/hooks";
import { useHindrance } from "../service/fresh.ts";

interface Props {
  id?: string;
  class?: string;
  title?: string;
  label?: string;
  disabled?: boolean;
  says?: boolean; // the reason stands beside it; else it is its title
  onClick: (event: TargetedMouseEvent<HTMLButtonElement>) => unknown; // pressed again before it is through it does nothing
  children: ComponentChildren;
}

export function ActButton({ id, class: kind, title, label, disabled = false, says = false, onClick, children }: Props) {
  const why = useHindrance();
  const hint = why ?? title;
  const busy = useRef(false);
  const press = async (event: TargetedMouseEvent<HTMLButtonElement>) => {
    if (busy.current) return;
    busy.current = true;
    try {
      await onClick(event);
    } finally {
      busy.current = false;
    }
  };
  return (
    <>
      <button
        {...(id ? { id } : {})}
        type="button"
        class={kind ?? ""}
        aria-label={label}
        {...(hint ? { title: hint } : {})}
        disabled={disabled || why !== null}
        onClick={press}
      >
        {children}
      </button>
      {says && why && <span class="quiet">{why}</span>}
    </>
  );
}
