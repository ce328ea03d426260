import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { createOutputText } from "./output-text.ts";
import { limitSequences } from "./screen-limits.ts";
import { adoptStyles, setStylesByCssom } from "./screen-styles.ts";

/** The screen and the keyboard of a terminal. */
export interface Screen {
  /** In cells. */
  size(): { readonly cols: number; readonly rows: number };
  write(bytes: Uint8Array, shown: () => void): void;
  /**
   * Clears the screen and its history, for output that begins again.
   *
   * @param pastBytes of the output that were written before. Until they are shown, queries in them get no answers,
   *   since they were answered before.
   */
  begin(pastBytes: number): void;
  setEnabled(isEnabled: boolean): void;
  /** Sends a key, such as `a` or `ArrowUp`. */
  press(key: string): void;
  /** The next letter that is typed is sent as with Control. */
  holdControl(isHeld: boolean): void;
  hasFocus(): boolean;
  focus(): void;
  dispose(): void;
}

export interface ScreenOptions {
  onInput(bytes: Uint8Array): void;
  onResize(): void;
  /** Called when the user asks to leave the terminal by keyboard. */
  onLeave(): void;
  /** Called when a held Control was used. */
  onControlUsed(): void;
}

const SCROLLBACK_LINES = 5000;
const MAX_CELLS = 1000;
/** What the pod keeps of a terminal's output. */
const KEPT_BYTES = 64 * 1024;
/** If less comes than the pod has said. */
const PAST_LIMIT_MS = 2000;
/** xterm looks at the time between two pieces, so that the page stays usable. */
const PIECE_BYTES = 4096;

const arrows: Readonly<Record<string, string>> = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D" };
const keys: Readonly<Record<string, string>> = { Escape: "\x1b", Tab: "\t" };

/** Shows a terminal in an element and fits it to the element's size. */
export function createScreen(box: HTMLElement, options: ScreenOptions): Screen {
  const terminal = new Terminal({
    cursorBlink: false,
    fontFamily: 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace',
    fontSize: 13,
    minimumContrastRatio: 4.5,
    screenReaderMode: true,
    scrollback: SCROLLBACK_LINES,
    theme: themeOf(box),
  });
  const fit = new FitAddon();
  const encoder = new TextEncoder();
  let textOf = createOutputText();
  let isEnabled = false;
  let pastBytes = 0;
  /** Counts the beginnings: pieces from before one may still be shown after it. */
  let round = 0;
  let isControlHeld = false;
  let cancelPast: ReturnType<typeof setTimeout> | undefined;

  terminal.loadAddon(fit);
  limitSequences(terminal);
  const host = document.createElement("div");
  terminal.open(host);
  setStylesByCssom(terminal);
  const removeStyles = adoptStyles(host);
  box.append(host);
  fitNow();

  terminal.attachCustomKeyEventHandler((event) => {
    if (isLeaveKey(event)) {
      event.preventDefault();
      if (event.type === "keydown") options.onLeave();
      return false;
    }
    // Browsers offer the clipboard only to their own keys.
    return !isClipboardKey(event, terminal.hasSelection());
  });
  terminal.onData((data) => {
    let text = data;
    if (isControlHeld && /^[@-_a-z]$/.test(data)) {
      text = String.fromCharCode(data.toUpperCase().charCodeAt(0) & 0x1f);
      isControlHeld = false;
      options.onControlUsed();
    }
    options.onInput(encoder.encode(text));
  });
  // Reports of the mouse in an old encoding are bytes.
  terminal.onBinary((data) => options.onInput(Uint8Array.from(data, (char) => char.charCodeAt(0))));
  terminal.onResize(() => options.onResize());

  const resized = new ResizeObserver(fitNow);
  resized.observe(box);
  const onTheme = (): void => {
    terminal.options.theme = themeOf(box);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", onTheme);
  const chosen = new MutationObserver(onTheme);
  chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });

  function fitNow(): void {
    const size = fit.proposeDimensions();
    if (size === undefined || !(size.cols > 0) || !(size.rows > 0)) return;
    terminal.resize(Math.min(size.cols, MAX_CELLS), Math.min(size.rows, MAX_CELLS));
  }

  function allowInput(): void {
    terminal.options.disableStdin = !isEnabled || pastBytes > 0;
  }

  function endPast(): void {
    clearTimeout(cancelPast);
    pastBytes = 0;
    allowInput();
  }

  allowInput();
  return {
    size: () => ({ cols: terminal.cols, rows: terminal.rows }),
    write(bytes, shown) {
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
        const piece = bytes.subarray(at, at + PIECE_BYTES);
        const isLast = at + PIECE_BYTES >= bytes.length;
        const mine = round;
        terminal.write(textOf(piece), () => {
          if (mine === round && pastBytes > 0) {
            pastBytes -= piece.length;
            if (pastBytes <= 0) endPast();
          }
          if (isLast) shown();
        });
      }
    },
    begin(past) {
      // In the order of the pieces, unlike `terminal.reset()`: https://vt100.net/docs/vt510-rm/RIS.html
      terminal.write("\x1bc");
      round += 1;
      textOf = createOutputText();
      pastBytes = Math.min(Math.max(0, past || 0), KEPT_BYTES);
      clearTimeout(cancelPast);
      cancelPast = setTimeout(endPast, PAST_LIMIT_MS);
      allowInput();
    },
    setEnabled(next) {
      isEnabled = next;
      allowInput();
    },
    press(key) {
      const arrow = arrows[key];
      const { applicationCursorKeysMode } = terminal.modes;
      const data = arrow === undefined ? (keys[key] ?? key) : `\x1b${applicationCursorKeysMode ? "O" : "["}${arrow}`;
      terminal.input(data);
    },
    holdControl(isHeld) {
      isControlHeld = isHeld;
    },
    hasFocus: () => box.contains(document.activeElement),
    focus: () => terminal.focus(),
    dispose() {
      clearTimeout(cancelPast);
      resized.disconnect();
      chosen.disconnect();
      dark.removeEventListener("change", onTheme);
      terminal.dispose();
      removeStyles();
      host.remove();
    },
  };
}

function isLeaveKey({ key, shiftKey, ctrlKey, altKey, metaKey }: KeyboardEvent): boolean {
  return key === "F6" && shiftKey && !ctrlKey && !altKey && !metaKey;
}

/** Whether the browser copies or pastes: Control+C only copies if text is selected. */
function isClipboardKey({ key, ctrlKey, shiftKey, altKey, metaKey }: KeyboardEvent, hasSelection: boolean): boolean {
  if (!ctrlKey || shiftKey || altKey || metaKey) return false;
  return key === "v" || (key === "c" && hasSelection);
}

/** The page's colours now. xterm takes no custom properties, so an element resolves them. */
function themeOf(box: HTMLElement): ITheme {
  const probe = box.appendChild(document.createElement("i"));
  const color = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const [foreground, background, accent] = [color("--fg"), color("--raised"), color("--accent")];
  probe.remove();
  return {
    ...{ foreground, background, cursor: foreground, cursorAccent: background },
    ...{ selectionBackground: accent, selectionForeground: background, selectionInactiveBackground: accent },
  };
}
