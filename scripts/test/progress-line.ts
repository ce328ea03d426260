/** The last line of a terminal. It shows what is running. */
export interface ProgressLine {
  /** Prints permanent lines above it. */
  print(text: string): void;
  started(label: string): void;
  ended(label: string): void;
  /** Removes the line. */
  close(): void;
}

interface Terminal {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** If the output is not a terminal, only the permanent lines are written. */
export function createProgressLine(terminal: Terminal = process.stdout, now: () => number = Date.now): ProgressLine {
  const running = new Map<string, number>();
  const timer = terminal.isTTY ? setInterval(show, 1000) : undefined;

  function show(): void {
    if (!terminal.isTTY) return;
    const parts = [...running].map(([label, since]) => `${short(label)} ${Math.floor((now() - since) / 1000)} s`);
    const line = parts.length === 0 ? "" : `running: ${parts.join(", ")}`;
    // A line that is wider than the terminal could not be removed.
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
