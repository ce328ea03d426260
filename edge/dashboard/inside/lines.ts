import { textIn } from "../parts/log.tsx";

/** Longer lines are no events: one has 32 KiB of output, or a command of 100 kB, with six characters for a byte. */
const MOST_LINE = 2 * 1024 * 1024;

/**
 * The lines of a body that are complete, as they come. The first list is empty.
 *
 * @throws Error if a line is longer than that of an event
 */
export async function* linesIn(response: Response): AsyncGenerator<readonly string[], void> {
  let rest = "";
  for await (const text of textIn(response)) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MOST_LINE) throw new Error("The stream cannot be read: it is not made of events");
    yield lines;
  }
}
