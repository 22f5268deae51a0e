// What the twin predicted for what runs, against what telemetry measured in the same window.
import { Figure, Figures } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import type { Recommendation } from "../../service/documents.ts";
import { bytes, percent } from "../../format.ts";

export function Fidelity({ of: { measured, incumbent } }: { of: Recommendation }) {
  if (measured.queue_mean_bytes === null) return null;
  const off = measured.residual_ratio;
  return (
    <Panel id="fidelity" title="The twin against reality">
      <Figures>
        <Figure name="Mean queue measured" value={bytes(measured.queue_mean_bytes)} />
        <Figure name="Predicted for what runs" value={bytes(measured.predicted_queue_mean_bytes ?? incumbent.queue_mean_bytes)} />
        <Figure name="Off by" value={off === null ? "–" : `${off < 0 ? "−" : "+"}${percent(Math.abs(off))}`} beside="with 1 KB added to both" />
      </Figures>
    </Panel>
  );
}
