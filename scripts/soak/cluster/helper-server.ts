import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import type { ApiClient } from "../../cluster/kubernetes/api-client.ts";
import { NAMESPACE } from "../objects.ts";

/** The program of a helper pod, as a process of this machine. */
export interface HelperServer {
  readonly process: ChildProcess;
  /** Its port on loopback, once it listens. */
  readonly port: Promise<number>;
}

/**
 * Starts the real program of the helper pod on the folder that its volume is, with the Secret as it is now.
 *
 * @param options.root of the pod, below which its volumes are
 * @param options.bundle the program, for Node
 */
export async function startHelperServer(options: {
  api: ApiClient;
  root: string;
  podUid: string;
  bundle: string;
}): Promise<HelperServer> {
  const { api, root, podUid, bundle } = options;
  const secrets = join(root, "etc", "tenancy-snapshots");
  mkdirSync(secrets, { recursive: true });
  const { text } = await api.call({ method: "GET", path: `/api/v1/namespaces/${NAMESPACE}/secrets/${SNAPSHOTS_NAME}` });
  const { data } = JSON.parse(text) as { data: Readonly<Record<string, string>> };
  for (const [name, encoded] of Object.entries(data)) {
    writeFileSync(join(secrets, name), Buffer.from(encoded, "base64"));
    chmodSync(join(secrets, name), 0o600);
  }
  const child = spawn(process.execPath, [bundle], {
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
    env: {
      TENANCY_SNAPSHOT_ROOT: join(root, "snapshots"),
      TENANCY_SNAPSHOT_SECRETS: secrets,
      TENANCY_SNAPSHOT_LISTEN: "127.0.0.1:0",
      TENANCY_POD_UID: podUid,
    },
  });
  return { process: child, port: portOf(child) };
}

function portOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = "";
    child.stdout?.on("data", (chunk) => {
      said += chunk;
      const [, port] = /"port":(\d+)[,}]/.exec(said) ?? [];
      if (port !== undefined) resolve(Number(port));
    });
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`the helper's program ended: ${said.slice(-500)}`)));
  });
}
