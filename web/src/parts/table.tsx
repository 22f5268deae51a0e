// A table with a caption: columns sort it, a field searches it, and of many rows it begins with the first and says how
// many there are. It scrolls, by keyboard too, where it is wider than its place, and says so.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../format.ts";
import { type Key, type Sorted, found, next, ordered } from "./order.ts";

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  tone?: (row: Row) => string;
  words?: boolean; // text, aligned left; figures are aligned right
  by?: (row: Row) => Key; // sorts by it
}

interface Props<Row> {
  id?: string;
  caption: string;
  columns: readonly Column<Row>[]; // the first names the row
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  tall?: boolean; // all rows at once
  tight?: boolean; // a phone has room for all its columns
  text?: (row: Row) => string; // what a search looks through
}

const FEW = 6; // rows that nobody has to search
const FIRST = 16;
const STEP = 100;
const NARROW = 4; // columns that a phone has room for; with more each row is a card there

export function Table<Row>({ id, caption, columns, rows, keyOf, tall = false, tight = false, text }: Props<Row>) {
  const [wanted, want] = useState("");
  const [sorted, sort] = useState<Sorted | null>(null);
  const [most, show] = useState(tall ? Infinity : FIRST);
  const key = columns.find(({ name }) => name === sorted?.column)?.by;
  const matching = text && wanted ? found(rows, wanted, text) : rows;
  const inOrder = key && sorted ? ordered(matching, key, sorted.down) : matching;
  const shown = inOrder.slice(0, most);
  const left = inOrder.length - shown.length;
  const { box, wide } = useWide(shown.length);
  return (
    <div class="table">
      {text && rows.length > FEW && (
        <label class="find">
          <span class="unseen">Find in: {caption}</span>
          <input type="search" value={wanted} placeholder="Find" onInput={(event) => want(event.currentTarget.value)} />
          <span class="quiet" role="status">{wanted && `${count(matching.length)} of ${count(rows.length)}`}</span>
        </label>
      )}
      <div ref={box} class="scroll tall" tabIndex={0} role="group" aria-label={caption}>
        <table id={id} class={columns.length > NARROW && !tight ? "cards" : ""}>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {columns.map((one, place) => (
                <Head key={one.name} of={one} words={one.words === true || place === 0} sorted={sorted} sort={sort} />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={keyOf(row)}>
                {columns.map(({ name, cell, tone, words }, place) =>
                  place === 0 ? (
                    <th key={name} scope="row">{cell(row)}</th>
                  ) : (
                    <td key={name} data-name={name} class={`${words ? "words" : ""} ${tone?.(row) ?? ""}`}>{cell(row)}</td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {wide && <p class="cue">Scroll right for more columns</p>}
      {left > 0 && (
        <p class="row cue">
          <span>{count(shown.length)} of {count(inOrder.length)} shown</span>
          <button class="small" type="button" onClick={() => show(most + STEP)}>Show {count(Math.min(left, STEP))} more</button>
        </p>
      )}
    </div>
  );
}

interface HeadProps<Row> {
  of: Column<Row>;
  words: boolean;
  sorted: Sorted | null;
  sort: (to: Sorted | null) => void;
}

function Head<Row>({ of: { name, by }, words, sorted, sort }: HeadProps<Row>) {
  const here = sorted?.column === name ? sorted : null;
  return (
    <th scope="col" class={`${words ? "words" : ""} ${by ? "" : "unsorted"}`} aria-sort={here ? (here.down ? "descending" : "ascending") : undefined}>
      {by ? (
        <button class="sort" type="button" title={`Sort by ${name.toLowerCase()}`} onClick={() => sort(next(sorted, name, !words))}>
          {name}
          <svg viewBox="0 0 10 14" width="8" height="11" aria-hidden="true">
            {!here?.down && <path d="M1 5.5L5 1l4 4.5" />}
            {(!here || here.down) && <path d="M1 8.5L5 13l4-4.5" />}
          </svg>
        </button>
      ) : (
        name
      )}
    </th>
  );
}

// Whether columns lie beyond the right edge.
function useWide(rows: number) {
  const box = useRef<HTMLDivElement>(null);
  const [wide, say] = useState(false);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => say(element.scrollWidth - element.clientWidth - element.scrollLeft > 4);
    look();
    element.addEventListener("scroll", look, { passive: true });
    const watch = new ResizeObserver(look);
    watch.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      watch.disconnect();
    };
  }, [rows]);
  return { box, wide };
}
