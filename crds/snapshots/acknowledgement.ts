import { Readable } from "node:stream";

/** The input of a command that waits until all of its output has arrived. */
export interface Acknowledgement {
  readonly stdin: Readable;
  /** Says a line to a command that asks for others before. */
  say(line: string): void;
  /** Lets the command end. */
  send(): void;
}

/**
 * The last line of a script whose output must arrive completely: it reads the acknowledgement.
 *
 * Output that is not read soon after a command has ended is dropped, and success reported: of ten reads of 40 MiB that
 * paused for 12 s before the last, two arrived without their end and with exit code 0, and six were disconnected; with
 * an acknowledgement, ten of ten were complete.
 */
export const awaitAcknowledgement = "read -r acknowledgement";

/** Makes the acknowledgement of one command. */
export function createAcknowledgement(): Acknowledgement {
  const stdin = new Readable({
    read() {
      // Its lines come when they are said.
    },
  });
  const say = (line: string): void => void stdin.push(`${line}\n`);
  return { stdin, say, send: () => say("received") };
}
