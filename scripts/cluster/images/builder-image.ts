import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder } from "../folders.ts";
import type { Log } from "../log.ts";
import { withFileLock } from "../process/file-lock.ts";
import { buildGo } from "../sources/build-go.ts";
import { isProgram } from "../sources/find-on-path.ts";
import { authorities } from "./authorities.ts";
import { busyboxFiles, findStaticBusybox } from "./busybox.ts";
import type { Image } from "./image-archive.ts";
import { programFiles } from "./program-files.ts";
import type { TarEntry } from "./tar-archive.ts";
import { unpackDebianPackages } from "./unpack-debian-packages.ts";

export const BUILDER_IMAGE = "localhost/tenancy-builder:1";
/** Where whom the image trusts is in it. */
export const AUTHORITIES = "etc/ssl/certs/ca-certificates.crt";

const MODULE_FOLDER = fileURLToPath(new URL("../go-buildkit", import.meta.url));
const VERSION = "v0.26.3";
const BUILT = ["buildctl", "buildkitd", "rootlesskit"];
const GO_PACKAGES = [
  "github.com/moby/buildkit/cmd/buildctl",
  "github.com/moby/buildkit/cmd/buildkitd",
  "github.com/rootless-containers/rootlesskit/v2/cmd/rootlesskit",
];

const DEBIAN_PACKAGES = ["runc", "uidmap", "git", "ca-certificates"];
const GIT_CORE = "usr/lib/git-core";
const PROGRAMS = [
  "/usr/sbin/runc",
  "/usr/bin/newuidmap",
  "/usr/bin/newgidmap",
  "/usr/bin/git",
  `/${GIT_CORE}/git-remote-http`,
];
/** The set-uid bit, which Debian gives them, takes CAP_SYS_ADMIN beside it (capabilities(7), user_namespaces(7)). */
const CAPABILITIES: Readonly<Record<string, readonly number[]>> = {
  "usr/bin/newgidmap": [6],
  "usr/bin/newuidmap": [7],
};

/** Longer than the slowest build takes. */
const LOCK_LIMIT_MS = 60 * 60_000;

/** What the image is made of. */
export interface BuilderParts {
  /** Files of an image with busybox in it. */
  readonly busybox: readonly TarEntry[];
  /** Of Debian's packages, with their libraries; as `programFiles` returns them for what is there. */
  programs(base: readonly TarEntry[]): Promise<readonly TarEntry[]>;
  /** Public certificate authorities, as PEM. */
  readonly authorities: Buffer;
  /** BuildKit's programs. */
  readonly buildkit: readonly TarEntry[];
}

/**
 * Returns the image that builds images: rootless BuildKit of Go modules, runc, uidmap and git of Debian's packages, and
 * busybox; or why it cannot be made.
 */
export async function builderImage(log: Log): Promise<Image | { readonly because: string }> {
  const buildkit = await buildBuildkit(log);
  if ("because" in buildkit) return buildkit;
  const root = await unpackBuilderPackages(log);
  return assembleBuilder({
    busybox: await busyboxFiles(await findStaticBusybox(log)),
    programs: (base) => programFiles({ programs: PROGRAMS, files: [], base, root }),
    authorities: authorities(root),
    buildkit: BUILT.map((name) => program(`usr/bin/${name}`, join(buildkit.folder, name))),
  });
}

/** Returns the folder with what the image has of Debian's packages. */
export function unpackBuilderPackages(log: Log): Promise<string> {
  return unpackDebianPackages(DEBIAN_PACKAGES, { name: "builder-packages", log });
}

/** Puts it together with the same programs, user and subordinate ids as `moby/buildkit:<version>-rootless` has. */
export async function assembleBuilder(parts: BuilderParts): Promise<Image> {
  const subordinate = "user:100000:65536\n";
  const base: TarEntry[] = [
    ...parts.busybox.filter(({ path }) => !path.startsWith("etc/") && path !== "tmp"),
    file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"),
    file("etc/group", "root:x:0:\nuser:x:1000:\n"),
    file("etc/subuid", subordinate),
    file("etc/subgid", subordinate),
    { path: "home/user", uid: 1000, gid: 1000 },
    ...["etc/ssl", "etc/ssl/certs", "run", "work", "context"].map((path) => ({ path })),
    { path: "tmp", mode: 0o1777 },
    file(AUTHORITIES, parts.authorities),
  ];
  const programs = (await parts.programs(base)).map((entry) => {
    const capabilities = CAPABILITIES[entry.path];
    return capabilities === undefined ? entry : { ...entry, capabilities };
  });
  return {
    name: BUILDER_IMAGE,
    files: [
      ...base,
      ...programs,
      { path: `${GIT_CORE}/git-remote-https`, linkTo: "git-remote-http" },
      ...parts.buildkit,
    ],
    command: ["sh"],
    user: "1000:1000",
    environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  };
}

function program(path: string, from: string): TarEntry {
  return { path, content: readFileSync(from), mode: 0o755 };
}

function file(path: string, content: string | Buffer): TarEntry {
  return { path, content: Buffer.from(content) };
}

/** Returns the folder with BuildKit's programs: in the cache, or built now from Go modules. */
async function buildBuildkit(log: Log): Promise<{ folder: string } | { because: string }> {
  const hash = createHash("sha256");
  for (const name of ["go.mod", "go.sum"]) hash.update(readFileSync(join(MODULE_FOLDER, name)));
  const home = join(cacheFolder(), "buildkit");
  const folder = join(home, hash.digest("hex").slice(0, 12));
  const isThere = () => BUILT.every((name) => isProgram(join(folder, name)));
  if (isThere()) return { folder };
  const lock = {
    what: "BuildKit",
    limitMs: LOCK_LIMIT_MS,
    onWait: ({ pid }: { pid: number }) => log(`waiting for process ${pid}, which builds BuildKit`),
  };
  const refused = await withFileLock(join(home, "lock"), lock, async () => {
    if (isThere()) return undefined;
    return await buildGo({
      what: "BuildKit",
      moduleFolder: MODULE_FOLDER,
      firstModule: "github.com/rootless-containers/rootlesskit/v2",
      reachMs: 10_000,
      packages: GO_PACKAGES,
      // What `go-buildkit/go.mod` asks for.
      minimumGo: "1.24",
      linkerFlags: ["-X", `github.com/moby/buildkit/version.Version=${VERSION}`],
      duration: "3 minutes on two cores",
      ...{ folder, environment: process.env, log },
    });
  }).catch((error: Error) => ({ because: error.message }));
  return refused ?? { folder };
}
