import { readFileSync } from "node:fs";
import { createApi } from "../edge/cli/build/api.ts";
import { buildWorkload } from "../edge/cli/build/build-workload.ts";
import { parseArguments, USAGE, type WorkloadArguments } from "./workload/arguments.ts";

/** Longer than any build may take. */
const LIMIT_MS = 4 * 3600_000;

const log = (line: string): void => void process.stderr.write(`${line}\n`);

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

try {
  process.exitCode = await run(parseArguments(process.argv.slice(2)));
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

async function run(parsed: WorkloadArguments): Promise<number> {
  if (parsed.command === "help") {
    process.stdout.write(USAGE);
    return 0;
  }
  const { name, context: folder, url, keyFile } = parsed;
  const key = keyFile === undefined ? process.env.TENANCY_API_KEY : readFileSync(keyFile, "utf8").trim();
  const signal = AbortSignal.timeout(LIMIT_MS);
  const api = createApi({ url, key, signal, onRetry: (message) => log(`waiting: ${message}`) });
  const onOutput = (chunk: Buffer): void => void process.stdout.write(chunk);
  return (await buildWorkload({ api, name, folder, log, onOutput, signal })) ? 0 : 1;
}
