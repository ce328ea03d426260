import { send } from "../api/call.ts";
import { textIn } from "../parts/log.tsx";
import type { Process } from "./process-words.ts";

type ProcessEvent =
  | { readonly type: "stdout" | "stderr"; readonly text: string }
  | { readonly type: "process"; readonly process: Process };

/** Longer lines are no events: one has 32 KiB of output, or a command of 100 kB, with six characters for a byte. */
const MOST_LINE = 2 * 1024 * 1024;

/**
 * Follows the outputs of a process as one text, from the oldest output that is kept. A line of one output ends where
 * the other one begins.
 *
 * @param onEnd called with its state after its end
 */
export async function* followOutput(
  path: string,
  { signal, onEnd }: { signal: AbortSignal; onEnd(process: Process): void },
): AsyncGenerator<string, void> {
  let rest = "";
  let last: "stdout" | "stderr" | undefined;
  let isLineEnd = true;
  const textOf = (event: ProcessEvent): string => {
    if (event.type === "process" || event.text === "") return "";
    const { type, text } = event;
    const separator = isLineEnd || last === type ? "" : "\n";
    last = type;
    isLineEnd = text.endsWith("\n");
    return separator + text;
  };
  for await (const text of textIn(await send("GET", `${path}?follow=true`, { signal }))) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MOST_LINE) throw new Error("The output cannot be read: it is not made of events");
    const events = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as ProcessEvent);
    yield events.map(textOf).join("");
    for (const event of events) if (event.type === "process") onEnd(event.process);
  }
}
