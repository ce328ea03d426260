/** Lines of a log, the newest of them, and which of them hold what is looked for. */
export interface LogLines {
  /** Lines that can be read, of which the first may not be the log's first. */
  readonly count: number;
  /** How many were let go at the beginning. */
  readonly dropped: number;
  /** Places of the lines that hold what is looked for, in order; undefined while nothing is looked for. */
  readonly hits: readonly number[] | undefined;
  line(at: number): string;
  /** Adds what came; a line without its end waits for the rest. */
  add(text: string): void;
  /** Nothing follows: the last line is as it is. */
  end(): void;
  /** Looks for text in any case; the empty one ends that. */
  find(text: string): void;
}

const LIMIT = 50_000;
const LINE_LIMIT = 4096;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal's own, https://man7.org/linux/man-pages/man4/console_codes.4.html
const escapes = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: what has no glyph is shown by its picture.
const controls = /[\x00-\x08\x0a-\x1f\x7f]/g;

/** @param limit lines that are kept at least */
export function createLogLines(limit = LIMIT): LogLines {
  let lines: string[] = [];
  let rest = "";
  let dropped = 0;
  let wanted = "";
  let hits: number[] = [];
  let searched = 0;

  function search(): void {
    if (wanted === "") return;
    for (; searched < lines.length; searched += 1) {
      if (lines[searched]?.toLowerCase().includes(wanted)) hits.push(searched);
    }
  }
  function searchAnew(): void {
    hits = [];
    searched = 0;
    search();
  }

  return {
    get count() {
      return lines.length;
    },
    get dropped() {
      return dropped;
    },
    get hits() {
      return wanted === "" ? undefined : hits;
    },
    line: (at) => lines[at] ?? "",
    add(text) {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      // Without an end in sight it is cut here too, or it would grow for as long as the log is read.
      if (rest.length > LINE_LIMIT * 16) {
        parts.push(rest);
        rest = "";
      }
      for (const part of parts) lines.push(readable(part));
      // A fifth at a time: each time moves all lines.
      if (lines.length > limit * 1.2) {
        dropped += lines.length - limit;
        lines = lines.slice(-limit);
        searchAnew();
      } else {
        search();
      }
    },
    end() {
      if (rest !== "") lines.push(readable(rest));
      rest = "";
      search();
    },
    find(text) {
      wanted = text.toLowerCase();
      searchAnew();
    },
  };
}

/** A line as text: without what a terminal would take as orders, and not longer than can be shown. */
function readable(line: string): string {
  const text = line
    .replace(/\r$/, "")
    .replace(escapes, "")
    .replace(controls, (control) => (control === "\x7f" ? "␡" : String.fromCharCode(0x2400 + control.charCodeAt(0))));
  if (text.length <= LINE_LIMIT) return text;
  return `${text.slice(0, LINE_LIMIT)} … ${text.length - LINE_LIMIT} more characters`;
}
