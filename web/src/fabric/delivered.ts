// What goes out of the ports that hosts are at, in bytes a second; null where no topology tells which these are.
import type { Queue, Topology } from "../service/documents.ts";

export function deliveredBytes(queues: readonly Queue[], topology: Topology | null): number | null {
  const hosts = new Set(topology?.hosts.map(({ name }) => name));
  const last = new Set(topology?.links.flatMap(({ a, a_port, b, b_port }) => (hosts.has(a) ? [`${b} ${b_port}`] : hosts.has(b) ? [`${a} ${a_port}`] : [])));
  const found = queues.filter((one) => one.throughput_bytes_per_s !== null && last.has(`${one.switch} ${one.port}`));
  return found.length ? found.reduce((sum, one) => sum + (one.throughput_bytes_per_s ?? 0), 0) : null;
}
