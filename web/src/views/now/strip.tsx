// The network in one line of figures.
import { Figure, Figures } from "../../parts/figure.tsx";
import type { Queue, State } from "../../service/documents.ts";
import { bytes, count, percent, perSecond, seconds, several } from "../../format.ts";

export function Strip({ state }: { state: State }) {
  const deepest = state.queues.reduce<Queue | undefined>((most, one) => ((one.depth_p99_bytes ?? -1) > (most?.depth_p99_bytes ?? -1) ? one : most), undefined);
  const busiest = state.queues.reduce<{ load: number; of: string } | null>((most, queue) => {
    const load = (queue.throughput_bytes_per_s ?? 0) / (queue.capacity_bytes_per_s || Infinity);
    return load > (most?.load ?? 0) ? { load, of: `${queue.switch} ${queue.port}` } : most;
  }, null);
  const marking = state.queues.reduce<number | null>((most, { marked_packets_per_s: rate }) => (rate === null ? most : Math.max(most ?? 0, rate)), null);
  const paused = state.ports.reduce<number | null>((most, { pause_share: share }) => (share === null ? most : Math.max(most ?? 0, share)), null);
  const [worst] = state.incast;
  const flows = Object.values(state.flows).reduce((sum, number) => sum + number, 0);
  return (
    <section class="strip" aria-label="The network in figures">
      <Figures id="facts">
        <Figure name="Deepest queue, 99 %" value={bytes(deepest?.depth_p99_bytes)} beside={deepest ? `${deepest.switch} ${deepest.port}` : "no queue seen"} />
        <Figure name="Busiest port" value={busiest ? percent(busiest.load) : "–"} beside={busiest?.of ?? "rates not known"} />
        <Figure name="Most marked queue" value={perSecond(marking)} beside={marking === null ? "devices do not say" : "packets marked CE"} />
        <Figure name="Most paused port" value={percent(paused)} beside={paused === null ? "no counters" : "of the time, by PFC"} />
        <Figure name="Worst incast" value={worst ? several(worst.degree, "sender") : "–"} beside={worst ? `at once to ${worst.receiver}` : "none seen"} />
        <Figure name="Flows" value={count(flows)} beside={`in ${seconds(state.duration_s)}`} />
      </Figures>
    </section>
  );
}
