/** The newest lines of a log, and the matches of a search. */
export interface LogLines {
  /** Number of lines held; the first may not be the log's first line. */
  readonly count: number;
  /** Number of oldest lines dropped. */
  readonly dropped: number;
  /** Indexes of the matching lines, in order; undefined without a search. */
  readonly hits: readonly number[] | undefined;
  line(at: number): string;
  /** Adds received text; an incomplete line waits for the rest. */
  add(text: string): void;
  /** The log has ended: an incomplete last line is complete. */
  end(): void;
  /** Searches without regard to case; an empty text ends the search. */
  find(text: string): void;
}

const LIMIT = 50_000;
const LINE_LIMIT = 4096;
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminal escapes, https://man7.org/linux/man-pages/man4/console_codes.4.html
const escapes = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are shown as their control pictures.
const controls = /[\x00-\x08\x0a-\x1f\x7f]/g;

/** @param limit minimum number of lines held */
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
      // A line without an end is cut here too; otherwise it would grow for as long as the log is read.
      if (rest.length > LINE_LIMIT * 16) {
        parts.push(rest);
        rest = "";
      }
      for (const part of parts) lines.push(readable(part));
      // Drop a fifth at a time, since each drop moves all lines.
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

/** A line as text: without terminal escape sequences, and cut to a length that can be shown. */
function readable(line: string): string {
  const text = line
    .replace(/\r$/, "")
    .replace(escapes, "")
    .replace(controls, (control) => (control === "\x7f" ? "␡" : String.fromCharCode(0x2400 + control.charCodeAt(0))));
  if (text.length <= LINE_LIMIT) return text;
  return `${text.slice(0, LINE_LIMIT)} … ${text.length - LINE_LIMIT} more characters`;
}
