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
 * The last line of a script whose output must arrive whole: it reads the acknowledgement.
 *
 * Output that nobody has taken soon after a command has ended is dropped, and success reported: of ten reads of 40 MiB
 * that paused for 12 s before the last, two came without their end and with exit code 0, six were cut; with one, ten of
 * ten were whole.
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
