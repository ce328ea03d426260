import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import type { ArchiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { restoreOverlay } from "../../../operator/snapshots/pods/restore-overlay.ts";
import { saveOverlay } from "../../../operator/snapshots/pods/save-overlay.ts";
import { unprivilegedExec, untilCommandsEnd } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

/** One thing of a tree, in a folder among those before it. */
export interface Node {
  readonly kind: "file" | "folder" | "symlink" | "hardlink" | "sparse";
  readonly parent: number;
  readonly name: string;
  readonly bytes: number;
  readonly mode: number;
  readonly mtime: number;
}

/** Something that a program does to two things of a tree. */
export interface Change {
  readonly what: "rename" | "exchange" | "delete" | "write" | "replace" | "link" | "make" | "back";
  readonly one: number;
  readonly other: number;
}

const bytesName = (maxLength: number) =>
  fc
    .uint8Array({ minLength: 1, maxLength })
    .map((bytes) => Buffer.from(bytes).toString("latin1").replace(/[\0/]/g, "_"))
    .filter((name) => name !== "." && name !== "..");
const name = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom("a", "b", "c", "file", "-rf", "new\nline", "end", "good 0 0\n", "'\"$HOME`"),
  },
  { weight: 3, arbitrary: bytesName(20) },
  { weight: 1, arbitrary: bytesName(255) },
  { weight: 1, arbitrary: fc.constantFrom("n".repeat(99), "n".repeat(100), "n".repeat(255)) },
);
const node: fc.Arbitrary<Node> = fc.record({
  kind: fc.constantFrom("file", "file", "file", "folder", "folder", "symlink", "hardlink", "sparse"),
  // A deep tree where it is the last folder.
  parent: fc.oneof(fc.nat(), fc.constant(-1)),
  name,
  bytes: fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: 150_000 })),
  mode: fc.integer({ min: 0, max: 0o7777 }),
  mtime: fc.integer({ min: 0, max: 1_700_000_000 }),
});
export const trees = fc.oneof(
  { weight: 6, arbitrary: fc.array(node, { maxLength: 25 }) },
  { weight: 1, arbitrary: fc.array(node, { minLength: 80, maxLength: 200, size: "max" }) },
);
/** What is done at each program that the script starts. */
export const changes = fc.array(
  fc.array(
    fc.record<Change>({
      what: fc.constantFrom("rename", "rename", "exchange", "delete", "write", "replace", "link", "make", "back"),
      one: fc.nat(),
      other: fc.nat(),
    }),
    { maxLength: 3 },
  ),
  // Some programs change things in all tries.
  { maxLength: 50, size: "max" },
);

const latin1 = (path: string) => Buffer.from(path, "latin1");
const below = (root: string, path: string) => latin1(`${root}/${path}`);
const MOST_PATH_BYTES = 3000;
const isRoot = process.getuid?.() === 0;
const USER = 65532;

/** Makes a tree below `<root>/data`; resolves with its paths, relative to the root. */
export function makeRandomTree(root: string, nodes: readonly Node[]): string[] {
  const folders = ["data"];
  const files: string[] = [];
  const made = new Map<string, Node>();
  nodes.forEach((entry, index) => {
    const { kind, bytes } = entry;
    const parent = entry.parent === -1 ? folders.at(-1) : folders[entry.parent % folders.length];
    const path = `${parent}/${entry.name}`;
    if (made.has(path) || path.length > MOST_PATH_BYTES) return;
    const at = below(root, path);
    const source = files[entry.mode % Math.max(files.length, 1)];
    if (kind === "folder") mkdirSync(at);
    else if (kind === "symlink") symlinkSync(`target of ${index}${"/..".repeat(bytes % 30)}`, at);
    else if (kind === "hardlink" && source !== undefined) linkSync(below(root, source), at);
    else if (kind === "hardlink") return;
    else {
      // Each content is another one.
      writeFileSync(at, `${index} ${"content ".repeat(bytes / 8)}`);
      if (kind === "sparse") truncateSync(at, bytes * 20);
    }
    made.set(path, entry);
    if (kind === "folder") folders.push(path);
    if (kind === "file" || kind === "sparse") files.push(path);
  });
  for (const [path, { kind, mode, mtime }] of [...made].reverse()) {
    const at = below(root, path);
    if (isRoot) lchownSync(at, USER, USER);
    if (kind === "symlink" || kind === "hardlink") continue;
    chmodSync(at, mode | (kind === "folder" ? 0o700 : 0o400));
    utimesSync(at, mtime, mtime);
  }
  return [...made.keys()];
}

/** Lines of a shell that is in the root. */
export function changeLines(paths: readonly string[], changed: readonly Change[]): Buffer {
  const quoted = (path: string) => `'${path.replaceAll("'", "'\\''")}'`;
  const pick = (index: number) => quoted(paths[index % Math.max(paths.length, 1)] ?? "data/nothing");
  const lines = changed.map(({ what, one, other }) => {
    const [from, to, fresh] = [pick(one), pick(other), quoted(`data/fresh-${other % 5}`)];
    switch (what) {
      case "rename":
        return `mv -T ${from} ${fresh}`;
      case "exchange":
        return `mv -T ${from} data/aside && mv -T ${to} ${from}; mv -T data/aside ${to}`;
      case "delete":
        return `rm -rf ${from}`;
      case "write":
        return `[ -f ${from} ] && echo more ${one} >> ${from}`;
      case "replace":
        return `[ -f ${from} ] && echo instead ${one} > data/temporary && mv -T data/temporary ${from}`;
      case "link":
        return `ln ${from} ${fresh}`;
      case "make":
        return `echo new ${one} > ${fresh}`;
      case "back":
        return `mv -T ${fresh} ${from}`;
      default:
        return what satisfies never;
    }
  });
  return latin1(lines.join("\n"));
}

/** What of each path is to be found again: its kind and its content, which is no other file's. */
export function walk(root: string): Map<string, string> {
  const found = new Map<string, string>();
  const visit = (path: Buffer): void => {
    const stat = lstatSync(path);
    const shown = path.toString("latin1").slice(root.length + 1);
    if (stat.isSymbolicLink()) found.set(shown, `symlink ${readlinkSync(path, "latin1")}`);
    else if (stat.isFile()) found.set(shown, `file ${createHash("sha256").update(readFileSync(path)).digest("hex")}`);
    else if (stat.isDirectory()) {
      found.set(shown, "folder");
      for (const child of readdirSync(path, { encoding: "buffer" }))
        visit(Buffer.concat([path, Buffer.from("/"), child]));
    }
  };
  visit(latin1(`${root}/data`));
  return found;
}

/**
 * What was there before and after, by its path or by its content, and is not restored.
 *
 * @param walks.isListed whether a path was still there when the save had made its first list
 */
export function lostFiles(walks: {
  before: Map<string, string>;
  after: Map<string, string>;
  restored: Map<string, string>;
  isListed: (path: string) => boolean;
}) {
  const { before, after, restored, isListed } = walks;
  const contents = new Set(restored.values());
  const contentsAfter = new Set(after.values());
  const lost = [...before].filter(([path, was]) => {
    const is = after.get(path);
    // What is written to while it is read may be restored as it was or as it is. A name that was gone before the save
    // knew it may be a new file's by now, which nobody promises.
    if (is !== undefined && isListed(path) && !restored.has(path)) return true;
    if (is === was && restored.get(path) !== was) return true;
    return was !== "folder" && contentsAfter.has(was) && !contents.has(was);
  });
  return lost.map(([path, was]) => JSON.stringify([path, was, after.get(path), restored.get(path)]));
}

/** A folder of this machine that stands for pods, and an archive in memory. */
export function createPlace() {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-trees-"));
  const busybox = join(folder, "busybox");
  copyFileSync(staticBusybox, busybox);
  const changing = join(folder, "changing");
  // The real programs, and changes at each of them: before it, and of tar in the middle of what it writes.
  writeFileSync(
    changing,
    `#!/bin/sh
REAL=${busybox}
step() {
  n=$("$REAL" cat ../steps/count); echo $((n + 1)) > ../steps/count
  [ ! -e ../steps/$n ] || . ../steps/$n > /dev/null 2>&1
}
case "$1" in
  find | stat) step ;;
  tar)
    [ -e ../steps/listed ] || "$REAL" find data -print0 > ../steps/listed
    step
    { "$REAL" "$@"; echo $? > ../steps/code; } | { "$REAL" dd bs=512 count=40 iflag=fullblock status=none; step; "$REAL" cat; }
    step
    exit "$("$REAL" cat ../steps/code)" ;;
esac
exec "$REAL" "$@"
`,
  );
  for (const opened of [folder, busybox, changing]) chmodSync(opened, 0o755);
  const pod = { namespace: "here", pod: "this", container: "machine" };
  const call = { signal: new AbortController().signal, timeoutMs: 120_000 };
  let archive = Buffer.alloc(0);

  function fresh(name: string): string {
    const root = join(folder, name);
    rmSync(root, { recursive: true, force: true });
    for (const made of [root, join(root, "data")]) {
      mkdirSync(made);
      if (isRoot) lchownSync(made, USER, USER);
    }
    return root;
  }

  return {
    fresh,
    /** What is stored, unpacked. */
    archive: () => gunzipSync(archive),
    /** Of the last save: whether a path was there when the first list was made, and before any change after it. */
    isListed(): (path: string) => boolean {
      const listed = join(folder, "steps", "listed");
      if (!existsSync(listed)) return () => true;
      const names = new Set(readFileSync(listed, "latin1").split("\0"));
      return (path) => names.has(path);
    },
    put(stored: Buffer) {
      archive = Buffer.from(stored);
    },
    async save(root: string, { limits, steps }: { limits: ArchiveLimits; steps: readonly Buffer[] }): Promise<void> {
      const at = join(folder, "steps");
      rmSync(at, { recursive: true, force: true });
      mkdirSync(at);
      writeFileSync(join(at, "count"), "0\n");
      writeFileSync(join(at, "code"), "0\n");
      for (const [index, lines] of steps.entries()) writeFileSync(join(at, String(index)), lines);
      for (const path of [at, ...readdirSync(at).map((name) => join(at, name))])
        if (isRoot) lchownSync(path, USER, USER);
      await saveOverlay({
        ...{ exec: unprivilegedExec, limits, overlayDirs: ["/data"], space: async () => undefined, ...call },
        pod: { ...pod, root, busybox: steps.length > 0 ? changing : busybox },
        async write(content, { describe }) {
          const parts: Uint8Array[] = [];
          for await (const part of content) parts.push(part);
          archive = Buffer.concat(parts);
          describe({ sizeBytes: archive.length });
          return {} as SnapshotMetadata;
        },
      }).finally(untilCommandsEnd);
    },
    async restore(root: string, limits: ArchiveLimits): Promise<void> {
      await restoreOverlay({
        ...{ exec: unprivilegedExec, limits, overlayDirs: ["/data"], opensGate: false, ...call },
        pod: { ...pod, root, busybox },
        open: async () => ({
          ...{ metadata: {} as SnapshotMetadata, content: Readable.from([archive]), close: () => undefined },
        }),
      }).finally(untilCommandsEnd);
    },
    /** By a program that shares nothing with the restore. */
    unpack(root: string): void {
      execFileSync("tar", ["-x", "-p", "--no-same-owner", "-f", "-", "-C", root], { input: gunzipSync(archive) });
    },
    remove: () => rmSync(folder, { recursive: true, maxRetries: 20 }),
  };
}
