import { join } from "node:path";
import { programImage } from "../../images/program-images.ts";
import { importImages } from "../images.ts";
import type { Log } from "../log.ts";

export const PROXY_IMAGE = "localhost/tenancy-proxy:1";

const root = join(import.meta.dirname, "../../..");

/** Brings the image of the egress proxy into a complete cluster, unless it has it already. */
export async function importProxyImage(cluster: string, log: Log): Promise<void> {
  const { image } = await programImage("proxy", { root, version: "1", mayLackInside: true }, log);
  await importImages(cluster, [{ ...image, name: PROXY_IMAGE }]);
}
