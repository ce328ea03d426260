import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clusterFolder } from "./folders.ts";
import { type Image, imageArchive, imageDigest } from "./images/image-archive.ts";
import { runCommand } from "./process/run-command.ts";

const LIMIT_MS = 60_000;

/**
 * Brings images into a complete cluster without a registry, those left out that it has already; returns their names.
 *
 * @param cluster name of the cluster
 * @throws Error when its containerd does not take them
 */
export async function importImages(cluster: string, images: readonly Image[]): Promise<string[]> {
  const ctr = ["-a", containerdSocket(clusterFolder(cluster)), "-n", "k8s.io"];
  const listed = await runCommand("ctr", [...ctr, "images", "ls"], { limitMs: LIMIT_MS });
  const there = new Set(
    listed.split("\n").map((line) => {
      const [name, , digest] = line.split(/\s+/);
      return `${name} ${digest}`;
    }),
  );
  const missing = images.filter((image) => !there.has(`${image.name} ${imageDigest(image)}`));
  if (missing.length === 0) return [];
  const folder = mkdtempSync(join(tmpdir(), "tenancy-images-"));
  try {
    const archive = join(folder, "images.tar");
    writeFileSync(archive, imageArchive(missing));
    await runCommand("ctr", [...ctr, "images", "import", archive], { limitMs: LIMIT_MS });
  } finally {
    rmSync(folder, { recursive: true });
  }
  return missing.map(({ name }) => name);
}

/** Returns the path of the socket that a cluster's containerd listens on. */
export function containerdSocket(folder: string): string {
  return join(folder, "run", "containerd.sock");
}
