// The network in one line of figures.
import { useMemo } from "preact/hooks";
import { type Overview, most, podsOf } from "../../fabric/overview.ts";
import { Figure, Figures } from "../../parts/figure.tsx";
import type { State } from "../../service/documents.ts";
import { bits, bytes, count, percent, portion, seconds, several } from "../../format.ts";

export function Strip({ state, overview }: { state: State; overview: Overview }) {
  const switches = useMemo(() => podsOf(overview).flatMap((pod) => pod.switches), [overview]);
  const delivered = overview.delivered_bytes_per_s;
  const [deepest, busiest, paused] = [most(switches, "depth_p99_bytes"), most(switches, "load"), most(switches, "pause_share")?.pause_share ?? null];
  const [worst] = state.incast;
  const flows = Object.values(state.flows).reduce((sum, number) => sum + number, 0);
  return (
    <section class="strip" aria-label="The network in figures">
      <Figures id="facts">
        <Figure name="Delivered to hosts" value={bits(delivered)} beside={delivered === null ? "their ports are not known" : `${several(overview.host_count, "host")}`} />
        <Figure name="Deepest queue, 99 %" value={bytes(deepest?.depth_p99_bytes)} beside={deepest ? `${deepest.name} ${deepest.deepest_port}` : "no queue seen"} />
        <Figure name="Busiest port" value={busiest ? percent(busiest.load) : "–"} beside={busiest ? `${busiest.name} ${busiest.busiest_port}` : "rates not known"} />
        <Figure name="Most paused port" value={portion(paused)} beside={paused === null ? "no counters" : "of the time, by PFC"} />
        <Figure name="Worst incast" value={worst ? several(worst.degree, "sender") : "–"} beside={worst ? `at once to ${worst.receiver}` : "none seen"} />
        <Figure name="Flows" value={count(flows)} beside={`in ${seconds(state.duration_s)}`} />
      </Figures>
    </section>
  );
}
