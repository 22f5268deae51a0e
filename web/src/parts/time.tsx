// A moment by the reader's clock; in UTC where one points at it.
import { when } from "../format.ts";

export const utc = (text: string): string => {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
};

export function Time({ at }: { at: string }) {
  return <time dateTime={at} title={utc(at)}>{when(at)}</time>;
}
