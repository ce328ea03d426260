import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";
import type { TarEntry } from "./tar-archive.ts";
import { unpackDebianPackages } from "./unpack-debian-packages.ts";

/**
 * Returns the path of a statically linked busybox: the machine's own, else the one in Debian's busybox-static, which is
 * unpacked in the cache rather than installed, since installing it would take the place of a busybox that is there.
 */
export async function findStaticBusybox(log: Log): Promise<string> {
  const installed = findIn("/");
  if (installed !== undefined) return installed;
  const folder = await unpackDebianPackages(["busybox-static"], { name: "busybox-static", log });
  const unpacked = findIn(folder);
  if (unpacked === undefined) {
    throw new Error(`Cannot find a static busybox in Debian's busybox-static; delete ${folder} to fetch it again`);
  }
  return unpacked;
}

function findIn(root: string): string | undefined {
  return ["bin", "usr/bin"].map((bin) => join(root, bin, "busybox")).find((path) => existsSync(path) && isStatic(path));
}

/** Returns the files of an image that has busybox under the name of each of its programs. */
export async function busyboxFiles(busybox: string): Promise<TarEntry[]> {
  const applets = (await runCommand(busybox, ["--list"])).trim().split("\n");
  return [
    { path: "bin" },
    { path: "bin/busybox", content: readFileSync(busybox), mode: 0o755 },
    ...applets.filter((name) => name !== "busybox").map((name) => ({ path: `bin/${name}`, linkTo: "busybox" })),
    { path: "etc" },
    {
      path: "etc/passwd",
      content: Buffer.from("root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532:nonroot:/home/nonroot:/bin/sh\n"),
    },
    { path: "etc/group", content: Buffer.from("root:x:0:\nnonroot:x:65532:\n") },
    { path: "home" },
    { path: "home/nonroot", uid: 65532, gid: 65532 },
    { path: "root", mode: 0o700 },
    { path: "tmp", mode: 0o1777 },
  ];
}

/** Whether an ELF file names no interpreter, so that it runs without any library. */
export function isStatic(path: string): boolean {
  const file = readFileSync(path);
  if (file.readUInt32BE(0) !== 0x7f454c46 || file[4] !== 2) return false;
  const start = Number(file.readBigUInt64LE(32));
  const size = file.readUInt16LE(54);
  const count = file.readUInt16LE(56);
  const INTERPRETER = 3;
  return Array.from({ length: count }, (_, index) => file.readUInt32LE(start + index * size)).every(
    (type) => type !== INTERPRETER,
  );
}
