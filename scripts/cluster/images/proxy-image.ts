import { PUBLIC_AUTHORITIES } from "../../../operator/egress/layout.ts";
import { importImages } from "../images.ts";
import type { Log } from "../log.ts";
import { authorities } from "./authorities.ts";
import { busyboxFiles, findStaticBusybox } from "./busybox.ts";
import type { Image } from "./image-archive.ts";
import { programFiles } from "./program-files.ts";
import { unpackDebianPackages } from "./unpack-debian-packages.ts";

export const PROXY_IMAGE = "localhost/tenancy-proxy:1";

const PACKAGES = ["haproxy", "nftables", "ca-certificates"];
const PROGRAMS = ["/usr/sbin/haproxy", "/usr/sbin/nft"];

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
      { path: PUBLIC_AUTHORITIES.slice(1), content: authorities(root), mode: 0o644 },
    ],
    command: ["sh"],
    environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  };
}
