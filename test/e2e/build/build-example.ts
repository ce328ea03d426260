import { execFile } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { cachedInstall } from "../../cluster/rest/cached-install.ts";
import type { Stack } from "../claims/stack.ts";

const EXAMPLES = join(import.meta.dirname, "../../../manifests/examples");
/** A machine that has compiled nothing yet compiles BuildKit. */
const BUILDER_LIMIT_MS = 30 * 60_000;
const CONTEXT_LIMIT_MS = 900_000;

/**
 * Applies an example's workload, and builds its image in the cluster of `npm start` as its page says. Packages are
 * fetched once.
 *
 * @param options.cluster name of the local cluster, which was started with `WITH_BUILDS`
 * @param options.example folder in `manifests/examples` with `requirements.txt` or `package-lock.json`
 */
export async function buildExample(
  stack: Stack,
  { cluster, example, workload }: { cluster: string; example: string; workload: string },
): Promise<void> {
  const script = join(EXAMPLES, "local-context.sh");
  const source = join(EXAMPLES, example);
  const packages = ["requirements.txt", "package-lock.json"]
    .map((name) => join(source, name))
    .filter((path) => existsSync(path));
  const made = await cachedInstall(`${example}-context`, {
    files: [script, ...packages],
    install: (empty) => runCommand(script, [source, empty], { limitMs: CONTEXT_LIMIT_MS }),
  });
  await waitUntil(() => /^ok builder image/m.test(stack.output()), {
    ...{ what: "the builder's image", limitMs: BUILDER_LIMIT_MS, intervalMs: 200, explain: stack.output },
  });
  const run = (...words: string[]) => promisify(execFile)(process.execPath, ["scripts/bootstrap.mjs", ...words]);
  await run("scripts/cluster.ts", "load", join(made, "base.tar"), "--name", cluster);
  await stack.kubectl("apply", "-f", join(source, "workload.yaml"));
  const context = mkdtempSync(join(tmpdir(), "tenancy-example-"));
  try {
    cpSync(join(made, "context"), context, { recursive: true });
    // The cached copies may be older than the example.
    const files = readdirSync(source, { withFileTypes: true }).filter((entry) => entry.isFile());
    for (const { name } of files) copyFileSync(join(source, name), join(context, name));
    await run("scripts/workload.ts", "build", workload, "--context", context, "--url", stack.url);
  } finally {
    rmSync(context, { recursive: true });
  }
}
