import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Agent } from "node:https";
import { join } from "node:path";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import {
  createStoreConnection,
  type StoreConnection,
  type StoreEndpoint,
} from "../../../crds/snapshots/store-connection.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { makeSelfSigned } from "../../../operator/snapshots/self-signed.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { clockWithoutPauses, TOKEN } from "./store-server.ts";

const repository = join(import.meta.dirname, "..", "..", "..");

export interface HelperProcess {
  readonly store: SnapshotStore;
  readonly connection: StoreConnection;
  kill(): Promise<void>;
}

/** Makes the helper pod's program, and the secrets that it reads, in a folder. @returns its path */
export async function makeHelperProgram(folder: string): Promise<string> {
  const bundle = join(folder, "server.mjs");
  const entry = join(repository, "operator/snapshots/helper/server-main.ts");
  await runCommand(join(repository, "node_modules/.bin/bun"), ["build", "--target=node", entry, "--outfile", bundle]);
  const [from, until] = [Date.now() - 60_000, Date.now() + 3_600_000].map((at) => new Date(at)) as [Date, Date];
  const { certificate, key } = makeSelfSigned({ name: SNAPSHOTS_NAME, from, until });
  const secrets = { token: TOKEN, "tls.crt": certificate, "tls.key": key };
  for (const [name, text] of Object.entries(secrets)) writeFileSync(join(folder, name), text);
  return bundle;
}

/** Runs the program on the volume at `root`, as its pod does. */
export async function startHelperProcess(
  bundle: string,
  { folder, root, env = {} }: { folder: string; root: string; env?: Readonly<Record<string, string>> },
): Promise<HelperProcess> {
  const child = spawn(process.execPath, [bundle], {
    env: {
      ...{ TENANCY_SNAPSHOT_ROOT: root, TENANCY_SNAPSHOT_LISTEN: "127.0.0.1:0" },
      ...{ TENANCY_SNAPSHOT_SECRETS: folder, ...env },
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const port = await portOf(child);
  const ca = readFileSync(join(folder, "tls.crt"), "utf8");
  const agent = new Agent({ keepAlive: true, ca, servername: SNAPSHOTS_NAME });
  const endpoint: StoreEndpoint = { secure: true, options: { host: "127.0.0.1", port, agent }, token: TOKEN };
  const connection = createStoreConnection({ endpoint: async () => endpoint, clock: clockWithoutPauses });
  return {
    connection,
    store: createStoreClient({ connection }),
    async kill() {
      child.kill("SIGKILL");
      await ended;
      agent.destroy();
    },
  };
}

function portOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = "";
    child.stdout?.on("data", (chunk) => {
      said += chunk;
      const [, port] = /"port":(\d+)/.exec(said) ?? [];
      if (port !== undefined) resolve(Number(port));
    });
    child.once("exit", () => reject(new Error(`the server ended: ${said}`)));
  });
}
