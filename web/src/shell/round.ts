// The round under way, as events tell of it.
import { signal } from "@preact/signals";
import { listen, listening } from "../service/events.ts";

export interface Round {
  stage: string;
  done: number | null;
  total: number | null;
}

export const round = signal<Round | null>(null);

listening.subscribe((on) => {
  if (!on) round.value = null; // its end may not be heard
});

listen(({ kind, data }) => {
  if (kind !== "round") return;
  const known = (value: unknown) => (typeof value === "number" ? value : null);
  round.value =
    data["stage"] === "finished"
      ? null
      : { stage: String(data["stage"]), done: known(data["done"]), total: known(data["total"]) };
});
