/** What JSON of others may be at most. */
export interface JsonBounds {
  /** UTF-16 units of the text. @default 1 Mi */
  readonly characters?: number;
  /** Levels of arrays and objects. @default 64 */
  readonly depth?: number;
  /** Values, arrays and objects included; one of these that is empty counts as two. @default 50000 */
  readonly values?: number;
}

const CHARACTERS = 1024 * 1024;
const DEPTH = 64;
/** Most take two dozen bytes each in what services send, and 1 MiB of them takes Bun 50 ms to read and to write. */
const VALUES = 50_000;

/** JSON that is beyond a bound; the message names the bound, such as `is nested more than 64 levels deep`. */
export class JsonBoundError extends Error {
  override readonly name = "JsonBoundError";
  /** The status of an answer to it: 413 where there is too much of it, 400 where it is too deep. */
  readonly status: 400 | 413;

  constructor(message: string, status: 400 | 413) {
    super(message);
    this.status = status;
  }
}

/**
 * Parses JSON that others wrote: strangers, tenants' programs, services that a trigger names.
 *
 * JSON that is deep is small to send and slow to read: `JSON.stringify` of 40 000 levels takes Bun seconds, and then
 * throws. So the text is looked through once before it is parsed, in a time that its length bounds
 * (docs/decisions/edge-http.md#json-of-others-is-bounded-before-it-is-parsed).
 *
 * @throws JsonBoundError beyond a bound
 * @throws SyntaxError where it is no JSON
 */
export function parseForeignJson(text: string, bounds: JsonBounds = {}): unknown {
  const { characters = CHARACTERS, depth = DEPTH, values = VALUES } = bounds;
  if (text.length > characters) throw new JsonBoundError(`is longer than ${characters} characters`, 413);
  checkShape(text, { depth, values });
  return JSON.parse(text);
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Counts what opens and what commas part; whether it is JSON at all is for the parser to say. */
function checkShape(text: string, { depth, values }: Required<Pick<JsonBounds, "depth" | "values">>): void {
  let open = 0;
  let count = 1;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COMMA) count += 1;
    else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      open += 1;
      count += 1;
      if (open > depth) throw new JsonBoundError(`is nested more than ${depth} levels deep`, 400);
    } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) open -= 1;
    if (count > values) throw new JsonBoundError(`holds more than ${values} values`, 413);
  }
}

/** The offset of the quote that ends the string, which no odd number of backslashes precedes; else of the text's end. */
function endOfString(text: string, start: number): number {
  for (let at = start; ; ) {
    at = text.indexOf('"', at + 1);
    if (at === -1) return text.length;
    let before = at;
    while (text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
}
