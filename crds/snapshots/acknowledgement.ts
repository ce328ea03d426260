import { Readable } from "node:stream";

/** The input of a command that does not end before all of its output has arrived. */
export interface Acknowledgement {
  readonly stdin: Readable;
  /** Sends a line to a command that reads other lines before the acknowledgement. */
  say(line: string): void;
  /** Lets the command end. */
  send(): void;
}

/**
 * The last line of a script whose output must arrive completely. It reads the acknowledgement.
 *
 * Output that is not read soon after a command has ended is dropped, and success is reported. Of ten reads of 40 MiB
 * that paused for 12 s before the last part, two arrived incomplete with exit code 0, and six were disconnected. With
 * an acknowledgement, ten of ten were complete.
 */
export const awaitAcknowledgement = "read -r acknowledgement";

/** Creates the acknowledgement of one command. */
export function createAcknowledgement(): Acknowledgement {
  const stdin = new Readable({
    read() {
      // `say` pushes the lines.
    },
  });
  const say = (line: string): void => void stdin.push(`${line}\n`);
  return { stdin, say, send: () => say("received") };
}
