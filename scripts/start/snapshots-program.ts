import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { isAlreadyExists } from "../../crds/client/api-error.ts";
import { configMaps } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import { PROGRAM_KEY } from "../../operator/snapshots/helper-pod.ts";
import { bundleSnapshots } from "./bundle-programs.ts";

/** The program of the helper pod, for an image that has only Node. */
export interface SnapshotsProgram {
  /** The name of its ConfigMap for `TENANCY_SNAPSHOT_PROGRAM`. Each version has another name. */
  readonly name: string;
  readonly text: string;
}

/** Bundles the program of the repository in the given folder. */
export async function readSnapshotsProgram(root: string): Promise<SnapshotsProgram> {
  const text = readFileSync(await bundleSnapshots(root), "utf8");
  return { name: `${SNAPSHOTS_NAME}-${createHash("sha256").update(text).digest("hex").slice(0, 10)}`, text };
}

/** Installs it in a namespace, and deletes those of other versions. */
export async function makeSnapshotsProgram(options: {
  client: ClusterClient;
  namespace: string;
  program: SnapshotsProgram;
  signal: AbortSignal;
}): Promise<void> {
  const { client, namespace, program, signal } = options;
  const { name, text } = program;
  const metadata = { name, namespace, labels: SNAPSHOTS_LABELS };
  try {
    await client.create(configMaps, { metadata, immutable: true, data: { [PROGRAM_KEY]: text } }, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
  const [[label, value] = []] = Object.entries(SNAPSHOTS_LABELS);
  const { items } = await client.list(configMaps, { namespace, labelSelector: `${label}=${value}`, signal });
  const former = items.map((item) => item.metadata.name).filter((found) => found !== name);
  await Promise.all(former.map((found) => client.delete(configMaps, { namespace, name: found }, { signal })));
}
