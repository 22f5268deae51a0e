// The round under way, as events tell of it.
import { signal } from "@preact/signals";
import { listen } from "../service/events.ts";

export interface Round {
  stage: string;
  done: number | null;
  total: number | null;
}

export const round = signal<Round | null>(null);

listen(({ kind, data }) => {
  if (kind !== "round") return;
  const known = (value: unknown) => (typeof value === "number" ? value : null);
  round.value =
    data["stage"] === "finished"
      ? null
      : { stage: String(data["stage"]), done: known(data["done"]), total: known(data["total"]) };
});
