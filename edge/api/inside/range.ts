/** A part of a file. */
interface FileRange {
  /** A negative offset counts from the end. */
  readonly offset: number;
  /** @default all that follows */
  readonly length?: number;
}

const RANGE = /^bytes=(\d{0,15})-(\d{0,15})$/;

/**
 * The part of a file that a request asks for; undefined for all of it. A request for several parts gets the whole file,
 * as https://www.rfc-editor.org/rfc/rfc9110#name-range allows.
 */
export function rangeOf({ headers }: Request): FileRange | undefined {
  const [, first = "", last = ""] = RANGE.exec(headers.get("range")?.replaceAll(" ", "") ?? "") ?? [];
  if (first === "") return last === "" || Number(last) === 0 ? undefined : { offset: -Number(last) };
  if (last === "") return { offset: Number(first) };
  return Number(last) < Number(first) ? undefined : { offset: Number(first), length: Number(last) - Number(first) + 1 };
}
