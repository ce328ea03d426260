import type { ProcessEvent } from "../../client/index.ts";
import { send } from "../api/call.ts";
import { linesIn } from "./lines.ts";
import type { Process } from "./process-words.ts";

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
  for await (const lines of linesIn(await send("GET", `${path}?follow=true`, { signal }))) {
    const events = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as ProcessEvent);
    yield events.map(textOf).join("");
    for (const event of events) if (event.type === "process") onEnd(event.process);
  }
}
