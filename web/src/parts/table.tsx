// A table with a caption, which scrolls by keyboard too where it is long or wide.
import type { ComponentChildren } from "preact";

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  tone?: (row: Row) => string;
  words?: boolean; // text, aligned left; figures are aligned right
}

interface Props<Row> {
  id?: string;
  caption: string;
  columns: readonly Column<Row>[]; // the first names the row
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  tall?: boolean; // all of it, without scrolling
}

export function Table<Row>({ id, caption, columns, rows, keyOf, tall = false }: Props<Row>) {
  return (
    <div class={tall ? "scroll tall" : "scroll"} tabIndex={0} role="group" aria-label={caption}>
      <table id={id}>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ name, words }, place) => (
              <th key={name} scope="col" class={words || place === 0 ? "words" : ""}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ name, cell, tone, words }, place) =>
                place === 0 ? (
                  <th key={name} scope="row">{cell(row)}</th>
                ) : (
                  <td key={name} class={`${words ? "words" : ""} ${tone?.(row) ?? ""}`}>{cell(row)}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
