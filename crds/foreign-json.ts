/** The limits of JSON that others wrote. */
export interface JsonBounds {
  /** UTF-16 units of the text. @default 1 Mi */
  readonly characters?: number;
  /** Levels of arrays and objects. @default 64 */
  readonly depth?: number;
  /** Values, including arrays and objects. An empty array or object counts as two. @default 50000 */
  readonly values?: number;
}

const CHARACTERS = 1024 * 1024;
const DEPTH = 64;
/** In what services send, most values take about 24 bytes. Bun reads and writes 1 MiB of them in 50 ms. */
const VALUES = 50_000;

/** JSON exceeds a limit. The message names the limit, such as `is nested more than 64 levels deep`. */
export class JsonBoundError extends Error {
  override readonly name = "JsonBoundError";
  /** The HTTP status for it: 413 if it is too large, 400 if it is too deep. */
  readonly status: 400 | 413;

  constructor(message: string, status: 400 | 413) {
    super(message);
    this.status = status;
  }
}

/**
 * Parses JSON that others wrote: clients, tenants' programs, services that a trigger names.
 *
 * Deep JSON is short but slow to process: `JSON.stringify` of 40 000 levels takes Bun seconds, and then throws. So the
 * text is checked before it is parsed, in linear time
 * (docs/decisions/edge-http.md#json-of-others-is-bounded-before-it-is-parsed).
 *
 * @throws JsonBoundError if it exceeds a limit
 * @throws SyntaxError if it is not JSON
 */
export function parseForeignJson(text: string, bounds: JsonBounds = {}): unknown {
  const { characters = CHARACTERS, depth = DEPTH, values = VALUES } = bounds;
  if (text.length > characters) throw new JsonBoundError(`is longer than ${characters} characters`, 413);
  checkShape(text, { depth, values });
  return JSON.parse(text);
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Counts opening brackets and commas. The parser decides later whether the text is JSON. */
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

/**
 * The offset of the quote that ends a string: one after an even number of backslashes. Without one, the text's length.
 */
function endOfString(text: string, start: number): number {
  for (let at = start; ; ) {
    at = text.indexOf('"', at + 1);
    if (at === -1) return text.length;
    let before = at;
    while (text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
}
