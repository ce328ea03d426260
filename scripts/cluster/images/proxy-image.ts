import { installDebianPackages } from "../debian-packages.ts";
import { importImages } from "../images.ts";
import type { Log } from "../log.ts";
import { busyboxFiles, findStaticBusybox } from "./busybox.ts";
import type { Image } from "./image-archive.ts";
import { programFiles } from "./program-files.ts";

export const PROXY_IMAGE = "localhost/tenancy-proxy:1";

const PACKAGES = ["haproxy", "nftables", "ca-certificates"];
const PROGRAMS = ["/usr/sbin/haproxy", "/usr/sbin/nft"];
const AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt";

/** Brings the image of the egress proxy into a complete cluster, unless it has it already. */
export async function importProxyImage(cluster: string, log: Log): Promise<void> {
  await importImages(cluster, [await proxyImage(log)]);
}

/**
 * Returns the image of the egress proxy: HAProxy, nft and the public certificate authorities of Debian's packages, which are installed
 * where they are missing, the libraries that the two programs are linked with, and a static busybox.
 */
export async function proxyImage(log: Log): Promise<Image> {
  await installDebianPackages(PACKAGES, log);
  const base = await busyboxFiles(await findStaticBusybox(log));
  return {
    name: PROXY_IMAGE,
    files: [...base, ...(await programFiles({ programs: PROGRAMS, files: [AUTHORITIES], base }))],
    command: ["sh"],
    environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  };
}
