import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/**
 * Writes a kubeconfig of one context alone, readable to its owner only, so that nothing started with it can reach another cluster.
 *
 * @throws Error when the context does not exist
 */
export async function contextKubeconfig(context: string): Promise<string> {
  const view = ["config", "view", "--minify", "--flatten", "--context", context, "-o", "yaml"];
  try {
    const { stdout } = await promisify(execFile)("kubectl", view);
    const path = join(mkdtempSync(join(tmpdir(), "tenancy-")), "kubeconfig");
    writeFileSync(path, stdout.replace(/^current-context: .*$/m, `current-context: ${JSON.stringify(context)}`));
    chmodSync(path, 0o600);
    return path;
  } catch (cause) {
    const said = (cause as { stderr?: string }).stderr?.trim() || String(cause);
    throw new Error(`Cannot use context "${context}": ${said}. See: kubectl config get-contexts`, { cause });
  }
}
