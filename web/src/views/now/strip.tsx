// The network in one line of figures.
import { deliveredBytes } from "../../fabric/delivered.ts";
import { Figure, Figures } from "../../parts/figure.tsx";
import type { Queue, State, Topologies } from "../../service/documents.ts";
import { useLive } from "../../service/live.ts";
import * as looks from "../../service/looks.ts";
import { bits, bytes, count, percent, seconds, several } from "../../format.ts";

export function Strip({ state, queues }: { state: State; queues: readonly Queue[] }) {
  const known = useLive<Topologies>(looks.topology).value;
  const delivered = deliveredBytes(queues, known?.declared ?? known?.discovered ?? null);
  const deepest = queues.reduce<Queue | undefined>((most, one) => ((one.depth_p99_bytes ?? -1) > (most?.depth_p99_bytes ?? -1) ? one : most), undefined);
  const busiest = queues.reduce<{ load: number; of: string } | null>((most, queue) => {
    const load = (queue.throughput_bytes_per_s ?? 0) / (queue.capacity_bytes_per_s || Infinity);
    return load > (most?.load ?? 0) ? { load, of: `${queue.switch} ${queue.port}` } : most;
  }, null);
  const paused = state.ports.reduce<number | null>((most, { pause_share: share }) => (share === null ? most : Math.max(most ?? 0, share)), null);
  const [worst] = state.incast;
  const flows = Object.values(state.flows).reduce((sum, number) => sum + number, 0);
  return (
    <section class="strip" aria-label="The network in figures">
      <Figures id="facts">
        <Figure name="Delivered to hosts" value={bits(delivered)} beside={delivered === null ? "their ports are not known" : `${several(known?.declared?.hosts.length ?? known?.discovered?.hosts.length ?? 0, "host")}`} />
        <Figure name="Deepest queue, 99 %" value={bytes(deepest?.depth_p99_bytes)} beside={deepest ? `${deepest.switch} ${deepest.port}` : "no queue seen"} />
        <Figure name="Busiest port" value={busiest ? percent(busiest.load) : "–"} beside={busiest?.of ?? "rates not known"} />
        <Figure name="Most paused port" value={percent(paused)} beside={paused === null ? "no counters" : "of the time, by PFC"} />
        <Figure name="Worst incast" value={worst ? several(worst.degree, "sender") : "–"} beside={worst ? `at once to ${worst.receiver}` : "none seen"} />
        <Figure name="Flows" value={count(flows)} beside={`in ${seconds(state.duration_s)}`} />
      </Figures>
    </section>
  );
}
