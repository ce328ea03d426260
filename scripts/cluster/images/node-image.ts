import { importImages } from "../images.ts";
import type { Image } from "./image-archive.ts";
import { programFiles } from "./program-files.ts";

export const NODE_IMAGE = "localhost/tenancy-node:1";

/** Brings the image into a complete cluster, unless it has it already. */
export async function importNodeImage(cluster: string): Promise<void> {
  await importImages(cluster, [await nodeImage()]);
}

/** Returns an image with the Node that runs this program, and its libraries: a helper pod's program is brought to it. */
export async function nodeImage(): Promise<Image> {
  const base = [{ path: "bin" }];
  const files = await programFiles({ programs: [process.execPath], files: [], base });
  const own = process.execPath.slice(1);
  return {
    name: NODE_IMAGE,
    files: [...base, ...files.map((file) => (file.path === own ? { ...file, path: "bin/node" } : file))],
    command: ["node"],
    user: "65532:65532",
  };
}
