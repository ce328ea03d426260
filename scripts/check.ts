// npm run check: the quick gate. Runs format, lint, types and unit tests (each test on one of its runtimes) at the same
// time, and prints the time of each. Also checks the messages of the commits that are not on the upstream branch.
import { spawn } from "node:child_process";
import { commitProblems } from "./lint/commit-messages.ts";

type Step = readonly [name: string, command: string, ...commandArguments: string[]];

/** This many take seconds. The 200 of npm test take a minute or more. */
const MODEL_SEQUENCES = "20";

/** The cache: files that were checked before are not checked again. `npm ci` deletes it. */
const types = (name: string, project: string, file: string): Step => {
  const notes = `node_modules/.cache/${file}.tsbuildinfo`;
  return [name, "tsc", "--noEmit", "-p", project, "--incremental", "--tsBuildInfoFile", notes];
};
const steps: Step[] = [
  ["format and lint", "biome", "check", "--error-on-warnings", "--colors=force", "."],
  types("types", ".", "tsc"),
  types("types of the page", "edge/dashboard", "tsc-page"),
  types("types of the client", "edge/client", "tsc-client"),
  ["unit tests", process.execPath, "--import", "tsx", "scripts/test.ts", "unit", "--quick"],
];

const badCommits = commitProblems(process.cwd());
for (const problem of badCommits) console.log(problem);
const failed = (await Promise.all(steps.map(runStep))).flat();
if (badCommits.length > 0) failed.unshift("commit messages");
if (failed.length > 0) {
  console.log(`failed: ${failed.join(", ")}`);
  process.exit(1);
}

/** @returns its name if it failed */
function runStep(step: Step): Promise<string[]> {
  const [name, command, ...commandArguments] = step;
  const started = Date.now();
  // The last one prints much, so its output is shown immediately. The output of each other one is shown as a block.
  const isShown = step === steps.at(-1);
  let output = "";
  return new Promise((resolve, reject) => {
    const child = spawn(command, commandArguments, {
      env: { TENANCY_MODEL_SEQUENCES: MODEL_SEQUENCES, ...process.env },
      stdio: ["inherit", ...Array(2).fill(isShown ? "inherit" : "pipe")],
    });
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
    child.once("error", reject);
    child.once("close", (status) => {
      const passed = status === 0;
      console.log(`${output}${passed ? "ok  " : "FAIL"} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
      resolve(passed ? [] : [name]);
    });
  });
}
