#!/usr/bin/env node
import { commands } from "./commands.ts";
import { failureOf } from "./exit-code.ts";
import { createInterrupts } from "./interrupts.ts";
import { runCommandLine } from "./run.ts";

const interrupts = createInterrupts(process, { kill: (exitCode) => process.exit(exitCode) });
/** A call that does not end with its signal must not keep the program. */
const GRACE_MS = 5000;
interrupts.signal.addEventListener("abort", () => {
  const { exitCode } = failureOf(interrupts.signal.reason);
  setTimeout(() => process.exit(exitCode), GRACE_MS).unref();
});
const { stdin, stdout, stderr, env } = process;
const exitCode = await runCommandLine(process.argv.slice(2), {
  commands,
  io: { stdin, stdout, stderr, env },
  interrupts,
});
// Standard input and open connections would keep the process.
await new Promise((resolve) => stdout.write("", resolve));
process.exit(exitCode);
