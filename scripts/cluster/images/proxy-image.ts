import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PUBLIC_AUTHORITIES } from "../../../operator/egress/layout.ts";
import { importImages } from "../images.ts";
import type { Log } from "../log.ts";
import { busyboxFiles, findStaticBusybox } from "./busybox.ts";
import type { Image } from "./image-archive.ts";
import { programFiles } from "./program-files.ts";
import { unpackDebianPackages } from "./unpack-debian-packages.ts";

export const PROXY_IMAGE = "localhost/tenancy-proxy:1";

const PACKAGES = ["haproxy", "nftables", "ca-certificates"];
const PROGRAMS = ["/usr/sbin/haproxy", "/usr/sbin/nft"];
/** Of the package, whose script makes one file of all of them when it is installed. */
const AUTHORITIES = "usr/share/ca-certificates/mozilla";

/** Brings the image of the egress proxy into a complete cluster, unless it has it already. */
export async function importProxyImage(cluster: string, log: Log): Promise<void> {
  await importImages(cluster, [await proxyImage(log)]);
}

/**
 * Returns the image of the egress proxy: HAProxy, nft and the public certificate authorities of Debian's packages,
 * which are unpacked in the cache, the libraries that the two programs are linked with, and a static busybox.
 *
 * They are not installed, since that would start HAProxy's service where there is a systemd.
 */
export async function proxyImage(log: Log): Promise<Image> {
  const root = await unpackDebianPackages(PACKAGES, { name: "proxy-packages", log });
  const base = await busyboxFiles(await findStaticBusybox(log));
  return {
    name: PROXY_IMAGE,
    files: [
      ...base,
      ...(await programFiles({ programs: PROGRAMS, files: [], base, root })),
      ...["etc/ssl", "etc/ssl/certs"].map((path) => ({ path })),
      { path: PUBLIC_AUTHORITIES.slice(1), content: authorities(join(root, AUTHORITIES)), mode: 0o644 },
    ],
    command: ["sh"],
    environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  };
}

/** Returns all certificates of a folder as one file. */
export function authorities(folder: string): Buffer {
  const files = readdirSync(folder).filter((file) => file.endsWith(".crt"));
  if (files.length === 0) throw new Error(`Cannot find certificate authorities in ${folder}`);
  const certificates = files.sort().map((file) => readFileSync(join(folder, file), "utf8").trimEnd());
  return Buffer.from(`${certificates.join("\n")}\n`);
}
