// The gain predicted and the gain measured as two bars over one scale, each with twice its error.
import { gain } from "../format.ts";
import type { GainSeen } from "../service/documents.ts";

export function GainPair({ id, of }: { id?: string; of: GainSeen }) {
  const rows = [
    { name: "Predicted", value: of.predicted, error: of.predicted_error ?? 0, ink: "new" },
    { name: "Measured", value: of.measured, error: of.measured_error ?? 0, ink: "old" },
  ] as const;
  const ends = rows.flatMap(({ value, error }) => (value === null ? [] : [value - 2 * error, value + 2 * error]));
  const [low, high] = [Math.min(0, ...ends), Math.max(0.01, ...ends)];
  const at = (value: number) => `${(2 + (96 * (value - low)) / (high - low)).toFixed(2)}%`;
  return (
    <dl class="gain-pair" id={id}>
      {rows.map(({ name, value, error, ink }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value === null ? "not yet" : gain(value, error || null)}</dd>
          <dd class="drawn" aria-hidden="true">
            <svg width="100%" height="16">
              <line class="zero" x1={at(0)} x2={at(0)} y1="0" y2="16" />
              {value !== null && (
                <g class={`ink-${ink}`}>
                  <line class="bar" x1={at(0)} x2={at(value)} y1="8" y2="8" />
                  <line class="error" x1={at(value - 2 * error)} x2={at(value + 2 * error)} y1="8" y2="8" />
                </g>
              )}
            </svg>
          </dd>
        </div>
      ))}
    </dl>
  );
}
