// npm run check: the quick gate. Format, lint, types and unit tests, each on one of its runtimes; each step's time is
// printed.
import { spawnSync } from "node:child_process";

const steps: [name: string, command: string, ...commandArguments: string[]][] = [
  ["format and lint", "biome", "check", "--error-on-warnings", "."],
  // What was checked before is not checked again; `npm ci` takes the notes away.
  ["types", "tsc", "--noEmit", "-p", ".", "--incremental", "--tsBuildInfoFile", "node_modules/.cache/tsc.tsbuildinfo"],
  ["types of the page", "tsc", "--noEmit", "-p", "edge/dashboard"],
  ["unit tests", process.execPath, "--import", "tsx", "scripts/test.ts", "unit", "--once"],
];
for (const [name, command, ...commandArguments] of steps) {
  const started = Date.now();
  const { status } = spawnSync(command, commandArguments, { stdio: "inherit" });
  console.log(`${status === 0 ? "ok  " : "FAIL"} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
  if (status !== 0) process.exit(1);
}
