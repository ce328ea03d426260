// npm run check: the quick gate. Format, lint, types and unit tests, each on one of its runtimes; each step's time is
// printed.
import { spawn } from "node:child_process";

type Step = readonly [name: string, command: string, ...commandArguments: string[]];

/** Seconds each, beside each other; all of them say what is wrong. */
const looks: Step[] = [
  ["format and lint", "biome", "check", "--error-on-warnings", "."],
  // What was checked before is not checked again; `npm ci` takes the notes away.
  ["types", "tsc", "--noEmit", "-p", ".", "--incremental", "--tsBuildInfoFile", "node_modules/.cache/tsc.tsbuildinfo"],
  ["types of the page", "tsc", "--noEmit", "-p", "edge/dashboard"],
];
const tests: Step = ["unit tests", process.execPath, "--import", "tsx", "scripts/test.ts", "unit", "--quick"];

const areFine = (await Promise.all(looks.map(runStep))).every(Boolean);
if (!areFine || !(await runStep(tests))) process.exit(1);

/** @returns whether it passed */
function runStep([name, command, ...commandArguments]: Step): Promise<boolean> {
  const started = Date.now();
  return new Promise((resolve, reject) => {
    const child = spawn(command, commandArguments, { stdio: "inherit" });
    child.once("error", reject);
    child.once("exit", (status) => {
      console.log(`${status === 0 ? "ok  " : "FAIL"} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
      resolve(status === 0);
    });
  });
}
