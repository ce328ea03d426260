import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { installDebianPackages } from "../debian-packages.ts";
import { importImages } from "../images.ts";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";
import { busyboxFiles, findStaticBusybox } from "./busybox.ts";
import type { Image } from "./image-archive.ts";
import type { TarEntry } from "./tar-archive.ts";

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
  const [busybox, ...libraries] = await Promise.all([
    findStaticBusybox(log).then(busyboxFiles),
    ...PROGRAMS.map((program) => librariesOf(program)),
  ]);
  const paths = [...new Set([...PROGRAMS, AUTHORITIES, ...libraries.flat()])].sort();
  const there = new Set(busybox.map(({ path }) => path));
  const folders = [...new Set(paths.flatMap((path) => ancestors(path)))].filter((path) => !there.has(path)).sort();
  return {
    name: PROXY_IMAGE,
    files: [...busybox, ...folders.map((path) => ({ path })), ...paths.map(fileEntry)],
    command: ["sh"],
    environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  };
}

/** The files that the dynamic linker loads for a program, itself among them. */
async function librariesOf(program: string): Promise<string[]> {
  const lines = (await runCommand("ldd", [program])).split("\n");
  const missing = lines.find((line) => line.includes("not found"));
  if (missing !== undefined) throw new Error(`Cannot make the proxy's image: ${program} lacks ${missing.trim()}`);
  return lines.flatMap((line) => /(?:=> |^\s*)(\/\S+) \(0x/.exec(line)?.[1] ?? []);
}

function ancestors(path: string): string[] {
  const folder = dirname(path);
  return folder === "/" ? [] : [...ancestors(folder), folder.slice(1)];
}

function fileEntry(path: string): TarEntry {
  return { path: path.slice(1), content: readFileSync(path), mode: path === AUTHORITIES ? 0o644 : 0o755 };
}
