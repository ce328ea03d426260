/** A terminal's last line, which says what is running. */
export interface ProgressLine {
  /** Prints lines that stay, above it. */
  print(text: string): void;
  started(label: string): void;
  ended(label: string): void;
  /** Takes the line away for good. */
  close(): void;
}

interface Terminal {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Elsewhere than on a terminal nothing but what is printed is written. */
export function createProgressLine(terminal: Terminal = process.stdout, now: () => number = Date.now): ProgressLine {
  const running = new Map<string, number>();
  const timer = terminal.isTTY ? setInterval(show, 1000) : undefined;

  function show(): void {
    if (!terminal.isTTY) return;
    const parts = [...running].map(([label, since]) => `${short(label)} ${Math.floor((now() - since) / 1000)} s`);
    const line = parts.length === 0 ? "" : `running: ${parts.join(", ")}`;
    // One that is longer than the terminal is wide could not be taken back.
    terminal.write(`\r\x1b[K${line.slice(0, (terminal.columns || 80) - 1)}`);
  }

  return {
    print(text) {
      if (terminal.isTTY) terminal.write("\r\x1b[K");
      terminal.write(`${text}\n`);
      show();
    },
    started(label) {
      running.set(label, now());
      show();
    },
    ended(label) {
      running.delete(label);
      show();
    },
    close() {
      clearInterval(timer);
      if (terminal.isTTY) terminal.write("\r\x1b[K");
    },
  };
}

function short(label: string): string {
  return label.replace(/^test\/[^/]+\//, "").replace(".test.ts", "");
}
