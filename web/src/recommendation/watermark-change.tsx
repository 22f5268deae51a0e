// The three numbers of a watermark, new and large, and below each what runs now.
import { Figure, Figures } from "../parts/figure.tsx";
import { bytes, pmax } from "../format.ts";
import type { Recommendation, Watermark } from "../service/documents.ts";

// What the incumbent of a recommendation is called: it runs no more once another was set.
export const wasOf = ({ status }: Pick<Recommendation, "status">): string => (status === "expired" || status === "outdated" ? "then" : status === "approved" ? "before" : "now");

export function WatermarkChange({ id, now, better, was = "now" }: { id?: string; now: Watermark; better: Watermark; was?: string }) {
  const rows = [
    ["Kmin", bytes(now.kmin_bytes), bytes(better.kmin_bytes)],
    ["Kmax", bytes(now.kmax_bytes), bytes(better.kmax_bytes)],
    ["Pmax", pmax(now.pmax), pmax(better.pmax)],
  ] as const;
  return (
    <Figures class="watermark" {...(id ? { id } : {})}>
      {rows.map(([name, before, after]) => (
        <Figure key={name} name={name} value={after} tone="new" beside={before === after ? `as ${was}` : `${was} ${before}`} />
      ))}
    </Figures>
  );
}
