/** Resolves at the first SIGTERM or SIGINT; the second one ends the process at once, with the shell's code for it. */
export function stopSignal(process: {
  on(name: "SIGTERM" | "SIGINT", listener: () => void): unknown;
  exit(code: number): void;
}): Promise<"SIGTERM" | "SIGINT"> {
  return new Promise((resolve) => {
    let stopping = false;
    for (const [name, code] of [
      ["SIGTERM", 143],
      ["SIGINT", 130],
    ] as const) {
      process.on(name, () => {
        if (stopping) process.exit(code);
        stopping = true;
        resolve(name);
      });
    }
  });
}
