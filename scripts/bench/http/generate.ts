import { join } from "node:path";
import { runCommand } from "../../cluster/process/run-command.ts";
import type { LoadOrder, LoadResult } from "./generate-load.ts";

/** Generates load in a process of its own. */
export async function generate(order: LoadOrder, signal: AbortSignal): Promise<LoadResult> {
  const main = join(import.meta.dirname, "main.ts");
  const command = ["--import", import.meta.resolve("tsx"), main, JSON.stringify(order)];
  const limitMs = order.warmUpMs + order.measureMs + 30_000;
  return JSON.parse(await runCommand(process.execPath, command, { limitMs, signal })) as LoadResult;
}
