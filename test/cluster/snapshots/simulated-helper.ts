import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ifFound } from "../../../crds/client/api-error.ts";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import { SECRET_KEYS, STORE_PORT } from "../../../crds/snapshots/store-endpoint.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { createSnapshotServer, type SnapshotServerOptions } from "../../../operator/snapshots/helper/server.ts";
import { bundleSnapshots } from "../../../scripts/start/bundle-programs.ts";
import { NAMESPACE, type Tenancy } from "../tenancy.ts";

const reference = { namespace: NAMESPACE, name: SNAPSHOTS_NAME };

/**
 * The kubelet's part for the helper pod, once the operator has made it: its server runs in this process, with the
 * Secret that the operator has filled, on a loopback address of its own.
 *
 * @param root the volume, as a folder of this machine
 */
export async function runHelper(
  tenancy: Tenancy,
  root: string,
  options: Pick<SnapshotServerOptions, "space"> = {},
): Promise<{ stop(): Promise<void> }> {
  const secret = await untilWanted(tenancy);
  const names = [SECRET_KEYS.key, SECRET_KEYS.certificate, SECRET_KEYS.token, SECRET_KEYS.namesToken];
  const [key, cert, token, namesToken] = names.map((name) => textOf(secret, name)) as [string, string, string, string];
  const [tokens, namesTokens] = [() => [token], () => [namesToken]];
  const server = createSnapshotServer({ ...options, root, tokens, namesTokens, tls: { key, cert } });
  const podIP = newAddress();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(STORE_PORT, podIP, resolve);
  });
  await showAt(podIP, tenancy);
  return {
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** As `runHelper`, with the program of the helper pod as a process of its own. @param folder for volume and Secret */
export async function runHelperProgram(tenancy: Tenancy, folder: string): Promise<{ stop(): Promise<void> }> {
  const secret = await untilWanted(tenancy);
  const [root, secretFolder] = ["volume", "secret"].map((name) => join(folder, name)) as [string, string];
  for (const path of [root, secretFolder]) mkdirSync(path);
  for (const name of Object.keys(secret.data ?? {})) writeFileSync(join(secretFolder, name), textOf(secret, name));
  const bundle = await bundleSnapshots(join(import.meta.dirname, "..", "..", ".."));
  const podIP = newAddress();
  const program = spawn(process.execPath, [bundle], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      TENANCY_SNAPSHOT_ROOT: root,
      TENANCY_SNAPSHOT_SECRETS: secretFolder,
      TENANCY_SNAPSHOT_LISTEN: `${podIP}:${STORE_PORT}`,
    },
  });
  const ended = new Promise<void>((resolve) => program.once("exit", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    program.stdout.once("data", () => resolve());
    program.once("error", reject).once("exit", (code) => reject(new Error(`the helper's program ended with ${code}`)));
  });
  await showAt(podIP, tenancy);
  return {
    async stop() {
      program.kill("SIGKILL");
      await ended;
    },
  };
}

/** Waits until the operator has made the pod, with the Secret that it mounts. */
async function untilWanted({ client, until }: Tenancy): Promise<Secret> {
  // The simulated kubelet is done with it then, and leaves its address alone.
  await until("the helper pod", async () => {
    const pod = await ifFound(client.get(pods, reference));
    return pod?.status?.containerStatuses?.[0]?.ready === true;
  });
  return await client.get(secrets, reference);
}

function newAddress(): string {
  return `127.${[...randomBytes(3)].map((byte) => 1 + (byte % 250)).join(".")}`;
}

async function showAt(podIP: string, { client }: Tenancy): Promise<void> {
  const status = { podIP, podIPs: [{ ip: podIP }] };
  await client.patch(pods, reference, { type: "merge", subresource: "status", body: { status } });
}

function textOf({ data = {} }: Secret, name: string): string {
  return Buffer.from(data[name] ?? "", "base64").toString("utf8");
}
