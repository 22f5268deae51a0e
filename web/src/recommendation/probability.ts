// How probable it is that a packet is marked, by the queue it finds.
import type { Watermark } from "../service/documents.ts";

export function probability(mark: Watermark, queue: number): number {
  if (queue <= mark.kmin_bytes) return 0;
  if (queue > mark.kmax_bytes) return 1;
  return (mark.pmax * (queue - mark.kmin_bytes)) / Math.max(1, mark.kmax_bytes - mark.kmin_bytes);
}
