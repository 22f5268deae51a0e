// Orders and searches of lists: leaf2 before leaf10, and every word that is looked for somewhere in a row.
import type { Figure } from "../service/documents.ts";

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
export const natural = (one: string, other: string): number => collator.compare(one, other);

export type Key = string | Figure;
export interface Sorted {
  column: string;
  down: boolean;
}

// What is not known comes last, either way.
export function ordered<Row>(rows: readonly Row[], key: (row: Row) => Key, down: boolean): Row[] {
  const sign = down ? -1 : 1;
  return rows
    .map((row) => ({ row, by: key(row) }))
    .sort(({ by: one }, { by: other }) => {
      if (one === null || other === null) return Number(one === null) - Number(other === null);
      return sign * (typeof one === "number" && typeof other === "number" ? one - other : natural(String(one), String(other)));
    })
    .map(({ row }) => row);
}

// As it was, then up, then down; figures begin with the largest.
export function next(sorted: Sorted | null, column: string, figures: boolean): Sorted | null {
  if (sorted?.column !== column) return { column, down: figures };
  return sorted.down === figures ? { column, down: !figures } : null;
}

export function found<Row>(rows: readonly Row[], wanted: string, text: (row: Row) => string): readonly Row[] {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const inside = text(row).toLowerCase();
    return words.every((word) => inside.includes(word));
  });
}
