// npm run check: the quick gate. Format, lint, types and unit tests on Node alone; each step's time is printed.
import { spawnSync } from "node:child_process";

const steps: [name: string, command: string, ...commandArguments: string[]][] = [
  ["format and lint", "biome", "check", "--error-on-warnings", "."],
  ["types", "tsc", "--noEmit", "-p", "."],
  ["unit tests", process.execPath, "--import", "tsx", "scripts/test.ts", "unit", "--runtime=node"],
];
for (const [name, command, ...commandArguments] of steps) {
  const started = Date.now();
  const { status } = spawnSync(command, commandArguments, { stdio: "inherit" });
  console.log(`${status === 0 ? "ok  " : "FAIL"} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
  if (status !== 0) process.exit(1);
}
