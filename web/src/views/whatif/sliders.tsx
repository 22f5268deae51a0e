// The three sliders, each with its number, and buttons for watermarks worth starting from.
import { useId, useState } from "preact/hooks";
import { percent, sameWatermark, spelled } from "../../format.ts";
import type { Watermark } from "../../service/documents.ts";
import { DIALS, type Dial, STEPS, stepOf, turned, valueAt } from "./dials.ts";

interface Start {
  name: string;
  mark: Watermark;
}

interface Props {
  mark: Watermark;
  starts: readonly Start[];
  now: Watermark | undefined;
  onTurn: (mark: Watermark) => void;
}

export function Sliders({ mark, starts, now, onTurn }: Props) {
  return (
    <form class="sliders" onSubmit={(event) => event.preventDefault()} aria-label="Watermark to try">
      {DIALS.map((dial) => <Slider key={dial.name} dial={dial} mark={mark} now={now} onTurn={onTurn} />)}
      <div class="row">
        {starts.map((one) => (
          <button key={one.name} type="button" title={spelled(one.mark)} aria-pressed={sameWatermark(one.mark, mark)} onClick={() => onTurn(one.mark)}>
            {one.name}
          </button>
        ))}
      </div>
    </form>
  );
}

function Slider({ dial, mark, now, onTurn }: { dial: Dial; mark: Watermark; now: Watermark | undefined; onTurn: Props["onTurn"] }) {
  const id = useId();
  const [typed, type] = useState<string | null>(null); // while it is no number that can be
  const value = mark[dial.name];
  const take = (wanted: number): boolean => {
    const found = turned(mark, dial.name, wanted);
    if (found) onTurn(found);
    return found !== null;
  };
  const read = (text: string) => type(text.trim() !== "" && take(Number(text) * dial.scale) ? null : text);
  return (
    <div class="slider">
      <span>
        <label for={id}><b>{dial.label}</b></label> <span id={`${id}-says`} class="quiet">{dial.says}</span>
      </span>
      <span class="number">
        <input
          type="number"
          aria-label={`${dial.label} in ${dial.unit}`}
          aria-invalid={typed !== null}
          min={dial.name === "pmax" ? 0.01 : 0}
          max={dial.name === "pmax" ? 100 : undefined}
          step="any"
          value={typed ?? String(Number((value / dial.scale).toPrecision(6)))}
          onInput={(event) => read(event.currentTarget.value)}
          onBlur={() => type(null)}
        />
        {dial.unit}
      </span>
      <input
        id={id}
        type="range"
        aria-describedby={`${id}-says`}
        min={0}
        max={STEPS}
        step={1}
        value={stepOf(dial, value)}
        aria-valuetext={dial.show(value)}
        onInput={(event) => {
          type(null);
          take(valueAt(dial, Number(event.currentTarget.value)));
        }}
      />
      <span class="quiet ends">
        <span>{dial.show(dial.low)}</span>
        {now && <span>{now[dial.name] === value ? "as now" : `now ${dial.show(now[dial.name])}${by(value, now[dial.name])}`}</span>}
        <span>{dial.show(dial.high)}</span>
      </span>
    </div>
  );
}

const by = (value: number, before: number): string => {
  if (before === 0) return "";
  const change = value / before - 1;
  if (Math.abs(change) < 0.005) return "";
  return change >= 1 ? `, ${(change + 1).toPrecision(2)} times that` : `, ${percent(Math.abs(change))} ${change > 0 ? "more" : "less"}`;
};
