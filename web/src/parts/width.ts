// How wide an element is, in CSS pixels, for what is drawn to fit it.
import { useEffect, useState } from "preact/hooks";

export function useWidth(box: { readonly current: HTMLElement | null }): number {
  const [width, measure] = useState(640);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => measure(Math.max(240, Math.floor(element.clientWidth))));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return width;
}
