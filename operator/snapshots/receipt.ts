import { Readable } from "node:stream";

/** The input of a command that waits until all of its output has arrived. */
export interface Receipt {
  readonly stdin: Readable;
  /** Lets the command end. */
  give(): void;
}

/**
 * The last line of a script whose output must arrive whole: it reads the receipt.
 *
 * containerd drops the output that nobody has taken soon after a command has ended, and reports success (tried: 40 MiB read by somebody
 * who paused for 12 s before the last ten came without their end, exit code 0; with a receipt, whole in ten of ten).
 */
export const awaitReceipt = "read -r receipt";

/** Makes the receipt of one command. */
export function createReceipt(): Receipt {
  const stdin = new Readable({
    read() {
      // It has one line, and that comes when it is given.
    },
  });
  return { stdin, give: () => void stdin.push("received\n") };
}
