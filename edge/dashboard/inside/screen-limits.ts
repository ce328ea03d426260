import type { Terminal } from "@xterm/xterm";

/** Control sequences that xterm repeats as often as their first number says, and whether that counts columns. */
const repeated: readonly (readonly [final: string, isColumns: boolean])[] = [
  ["I", true],
  ["Z", true],
  ["b", true],
  ["L", false],
  ["M", false],
  ["S", false],
  ["T", false],
];
const HYPERLINK = 8;
/**
 * Bounds what output can do to the page: a tenant's program writes it. A sequence that repeats more often than the
 * screen is large does nothing: a short one would keep the page busy for minutes. Hyperlinks (OSC 8) are shown as their
 * text. Titles and the clipboard need listeners that nothing registers here.
 */
export function limitSequences(terminal: Terminal): void {
  const { parser } = terminal;
  for (const [final, isColumns] of repeated)
    parser.registerCsiHandler({ final }, ([first]) => Number(first) > (isColumns ? terminal.cols : terminal.rows));
  parser.registerOscHandler(HYPERLINK, () => true);
}
