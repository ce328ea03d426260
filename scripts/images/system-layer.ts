import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { authorities } from "../cluster/images/authorities.ts";
import { isStatic } from "../cluster/images/busybox.ts";
import { foldersOf, libraryFolders } from "../cluster/images/program-files.ts";
import type { TarEntry } from "../cluster/images/tar-archive.ts";
import { PACKAGE_STATUS, unpackDebianPackages } from "../cluster/images/unpack-debian-packages.ts";
import type { Log } from "../cluster/log.ts";
import { runCommand } from "../cluster/process/run-command.ts";
import { type Component, debianComponent } from "./bill-of-materials.ts";

/** Packages of this machine's Debian release. They are fetched, but not installed. */
const PACKAGES = [
  ...["libc6", "libgcc-s1", "libstdc++6", "ca-certificates", "coreutils"],
  ...["haproxy", "nftables", "busybox-static"],
];
/** The path of the dynamic linker in programs, and the folders where it looks for libraries without a cache. */
const LINKERS: Partial<Record<NodeJS.Architecture, { path: string; libraries: string }>> = {
  x64: { path: "/lib64/ld-linux-x86-64.so.2", libraries: "/lib/x86_64-linux-gnu" },
  arm64: { path: "/lib/ld-linux-aarch64.so.1", libraries: "/lib/aarch64-linux-gnu" },
};
const USER = "nonroot:x:65532:65532:nonroot:/:/nonexistent";

/** A program of an image. */
export interface Program {
  /** The path in the image. */
  readonly path: string;
  /** The path on this machine. */
  readonly file: string;
}

/** Returns the folder with the content of the Debian packages. */
export function debianRoot(log: Log): Promise<string> {
  return unpackDebianPackages(PACKAGES, { name: "image-packages", log });
}

/** Returns a program of the Debian packages. Newer releases have programs only below `usr`. */
export function debianProgram(root: string, path: string): Program {
  const file = ["", "usr"].map((folder) => join(root, folder, path)).find((one) => existsSync(one));
  if (file === undefined) throw new Error(`Cannot find ${path} in ${root}; delete that folder to fetch it again`);
  return { path, file };
}

/**
 * Returns the layer below an image's own files: programs, the libraries that they are linked with, certificate
 * authorities, and users. It has no shell and no package manager, unless one of the programs is one.
 *
 * @param root the folder that `debianRoot` returns; all libraries come from there
 * @throws Error if a program needs a library that is missing
 */
export async function systemLayer(
  programs: readonly Program[],
  root: string,
): Promise<{ layer: TarEntry[]; components: Component[] }> {
  const packages = new Set(["ca-certificates"]);
  const owners = fileOwners(root);
  const { linker, file: linkerFile } = findLinker(root);
  const files = new Map<string, TarEntry>();
  const add = (path: string, content: string | Buffer, mode = 0o644) =>
    files.set(path, { path: path.slice(1), content: Buffer.from(content), mode });
  const addProgram = (path: string, from: string) => {
    const file = realpathSync(from);
    const owner = owners.get(relative(root, file));
    if (owner !== undefined) packages.add(owner);
    else if (file.startsWith(`${root}/`)) throw new Error(`Cannot find the package of ${file}`);
    add(path, readFileSync(file), 0o755);
  };
  add("/etc/passwd", `root:x:0:0:root:/root:/nonexistent\n${USER}\n`);
  add("/etc/group", "root:x:0:\nnonroot:x:65532:\n");
  // Programs that look up names read the hosts file first.
  add("/etc/nsswitch.conf", "hosts: files dns\n");
  add("/etc/os-release", readFileSync("/etc/os-release"));
  add("/etc/ssl/certs/ca-certificates.crt", authorities(root));
  for (const { path, file } of programs) {
    addProgram(path, file);
    if (isStatic(file)) continue;
    addProgram(linker.path, linkerFile);
    for (const library of await librariesOf(file, { root, linker: linkerFile })) {
      addProgram(join(linker.libraries, basename(library)), library);
    }
  }
  const status = [...packages].sort().map((name) => {
    const control = readFileSync(join(root, PACKAGE_STATUS, name), "utf8");
    add(`/${PACKAGE_STATUS}/${name}`, control);
    const copyright = join(root, "usr/share/doc", name, "copyright");
    if (existsSync(copyright)) add(`/usr/share/doc/${name}/copyright`, readFileSync(copyright));
    return control;
  });
  const paths = [...files.keys()].sort();
  const folders = [...new Set(paths.flatMap(foldersOf))].sort();
  return {
    layer: [
      ...folders.map((path) => ({ path })),
      ...paths.flatMap((path) => files.get(path) ?? []),
      { path: "tmp", mode: 0o1777 },
    ],
    components: status.map(debianComponent),
  };
}

/** The package of each file in the folder. */
function fileOwners(root: string): Map<string, string> {
  const status = join(root, PACKAGE_STATUS);
  const lists = readdirSync(status).filter((name) => name.endsWith(".md5sums"));
  return new Map(
    lists.flatMap((list) =>
      readFileSync(join(status, list), "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => [line.slice(line.indexOf("  ") + 2), list.slice(0, -".md5sums".length)] as const),
    ),
  );
}

function findLinker(root: string) {
  const linker = LINKERS[process.arch];
  if (linker === undefined) throw new Error(`Cannot make images for ${process.arch}`);
  const name = basename(linker.path);
  const file = libraryFolders(root)
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
  if (file === undefined) throw new Error(`Cannot find ${name} in ${root}; delete that folder to fetch it again`);
  return { linker, file };
}

/** The libraries that the packages' linker (not this machine's) loads for a program. */
async function librariesOf(program: string, { root, linker }: { root: string; linker: string }): Promise<string[]> {
  const listed = await runCommand(linker, ["--library-path", libraryFolders(root).join(":"), "--list", program]);
  const found = [...listed.matchAll(/^\s*([^/\s]+) => (.+?)(?: \(0x\w+\))?$/gm)];
  return found.map(([, name = "", path = ""]) => {
    if (path.startsWith(root)) return path;
    throw new Error(`Cannot copy ${program}: no package of the images has ${name}`);
  });
}
