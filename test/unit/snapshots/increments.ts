import { type ChildProcess, execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, type Test } from "uvu";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { MostKept, SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { createSnapshots, type Snapshots } from "../../../operator/snapshots/snapshots.ts";
import type { ArchiveRoom } from "../../../operator/snapshots/streams/archive-room.ts";
import { execInFolders, makeWaitingPod } from "./local-pods.ts";
import { call, key, loadBytes, MOST } from "./store-contract.ts";
import { type ServedStore, serveStore } from "./store-server.ts";
import { treeLines } from "./tree.ts";

export interface Context {
  folder: string;
  exec: Exec;
  served: ServedStore;
  /** The store as the operator has it. */
  archives: { -readonly [call in keyof SnapshotStore]: SnapshotStore[call] };
  snapshots: Snapshots;
  gates: ChildProcess[];
  /** What was sent to the store since it was last emptied. */
  sent: { bytes: number; onto: boolean }[];
  /** What came from pods, and how many saves asked for a part of the files, since this was last set. */
  read: { bytes: number; parts: number };
}

const { signal } = call;
export const led = { signal, isFenced: () => false };

/** A suite whose tests have a volume of archives, and pods in folders. */
export function increments(name: string): Test<Context> {
  const test = suite<Context>(name);
  test.before.each(prepare);
  test.after.each(cleanUp);
  return test;
}

async function prepare(context: Context): Promise<void> {
  const folder = fs.mkdtempSync(join(tmpdir(), "tenancy-increments-"));
  fs.mkdirSync(join(folder, "volume"));
  const served = await serveStore(join(folder, "volume"));
  const inFolders = execInFolders(folder);
  const exec: Exec = (asked) => {
    asked.stdin?.on("data", (chunk: Buffer) => {
      if (/^part /.test(chunk.toString())) read.parts += 1;
    });
    return inFolders(asked);
  };
  const sent: Context["sent"] = [];
  const read = { bytes: 0, parts: 0 };
  const archives: Context["archives"] = {
    ...served.store,
    async put(to, archive, asked) {
      const put = { bytes: 0, onto: asked.onto !== undefined };
      sent.push(put);
      async function* count(): AsyncGenerator<Uint8Array> {
        for await (const piece of archive) {
          put.bytes += piece.length;
          yield piece;
        }
      }
      return await served.store.put(to, count(), asked);
    },
  };
  Object.assign(context, { folder, exec, served, archives, sent, read, gates: [] });
  context.snapshots = createFor(context);
}

export function createFor(
  context: Context,
  { most = {}, room }: { most?: Partial<MostKept>; room?: ArchiveRoom } = {},
): Snapshots {
  const mark = { advice: "", wasSeen: async () => false, remember: async () => undefined };
  const { archives } = context;
  return createSnapshots({
    ...{ exec: (asked) => context.exec(asked), mark, archives, namespace: "n", timeoutMs: 60_000, room },
    most: { ...MOST, ...most },
  });
}

async function cleanUp({ folder, gates, served, snapshots }: Context): Promise<void> {
  for (const gate of gates) gate.kill();
  snapshots.close();
  await served.close();
  fs.rmSync(folder, { recursive: true, maxRetries: 20 });
}

export function podOf(name: string, sha256 = ""): Pod {
  return {
    metadata: {
      ...{ name, uid: `uid of ${name}` },
      annotations: { [annotation.overlayDirs]: '["/data"]', [annotation.resumedFrom]: sha256 },
    },
    spec: { containers: [] },
  };
}

/** Restores an archive, the newest one if no other is named, into a new pod whose program has not begun. */
export async function restore(
  { folder, snapshots, served, gates }: Context,
  name: string,
  into: "waiting" | "held" = "waiting",
  version?: string,
): Promise<{ pod: Pod; data: string }> {
  const root = join(folder, name);
  gates.push(makeWaitingPod(root, ["data"]));
  const sha256 = version ?? (await served.store.look(key, call)).newest?.sha256;
  const pod = podOf(name, sha256);
  if (into === "held") snapshots.prepare(pod);
  await snapshots.restore(key, pod, { into, sha256, signal });
  return { pod, data: join(root, "data") };
}

/** Unpacks an archive, the newest one if no other is named, with another program. */
export async function unpack({ folder, served }: Context, name: string, sha256?: string): Promise<string> {
  const to = join(folder, name);
  fs.mkdirSync(to);
  const input = await loadBytes(served.store, key, sha256);
  if (input === undefined) throw new Error("there is no archive");
  execFileSync("tar", ["-xpzf", "-", "-C", to], { input, maxBuffer: Number.POSITIVE_INFINITY });
  return join(to, "data");
}

/** Saves a folder with some files, of which the archive has 5 MiB. */
export async function saveFirst({ folder, snapshots }: Context): Promise<void> {
  const from = join(folder, "from/data");
  for (let dir = 0; dir < 10; dir += 1) {
    fs.mkdirSync(join(from, `dir ${dir}`), { recursive: true });
    for (let file = 0; file < 50; file += 1) {
      fs.writeFileSync(join(from, `dir ${dir}`, `file ${file}`), Buffer.alloc(8 * 1024, `${dir} ${file} `));
    }
  }
  fs.writeFileSync(join(from, "large"), randomBytes(5 * 1024 * 1024));
  await snapshots.save(key, podOf("from"), led);
}

/** The lines that only one of two folders has. */
export function differences(got: string, want: string): string[] {
  const [ours, theirs] = [new Set(treeLines(got)), new Set(treeLines(want))];
  const more = [...ours].filter((line) => !theirs.has(line)).map((line) => `+ ${line}`);
  return [...more, ...[...theirs].filter((line) => !ours.has(line)).map((line) => `- ${line}`)];
}

/** What a save sent, if it is what the pod has then. */
export async function saved(context: Context, { pod, data }: { pod: Pod; data: string }): Promise<Context["sent"]> {
  context.sent.length = 0;
  await context.snapshots.save(key, pod, {
    ...led,
    onBytes(bytes) {
      context.read.bytes += bytes;
    },
  });
  const unpacked = await unpack(context, `unpacked from ${pod.metadata.name}`);
  assert.equal(differences(unpacked, data), []);
  fs.rmSync(join(unpacked, ".."), { recursive: true });
  return context.sent;
}

/** All below a folder. */
function within(folder: string): { files: string[]; folders: string[]; links: string[] } {
  const found = { files: [] as string[], folders: [folder], links: [] as string[] };
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) found.folders.push(path);
    else if (entry.isSymbolicLink()) found.links.push(path);
    else found.files.push(path);
  }
  return found;
}

/** Does one thing that a program may do to its files. */
export function changeSomething(data: string, random: (below: number) => number): void {
  const { files, folders, links } = within(data);
  const one = <T>(all: readonly T[]): T => all[random(all.length)] as T;
  const fresh = (): string => join(one(folders), `new '${random(1_000_000)}'`);
  const content = (): Buffer => Buffer.alloc([0, 10, 3000, 70_000, 200_000][random(5)] ?? 0, `${random(1000)} `);
  const [file, other, folder, another] = [one(files), one(files), one(folders), one(folders)];
  const isMovable = folder !== data;
  const areApart = isMovable && another !== data && !isIn(folder, another) && !isIn(another, folder);
  const writeNew = (): void => fs.writeFileSync(fresh(), content());
  const changes = [
    writeNew,
    () => fs.mkdirSync(join(fresh(), "deep"), { recursive: true }),
    () => fs.symlinkSync("somewhere", fresh()),
    ...(links.length > 0 ? [() => fs.rmSync(one(links))] : []),
    ...(isMovable
      ? [() => fs.rmSync(folder, { recursive: true }), () => fs.renameSync(folder, join(data, `moved ${random(1e6)}`))]
      : []),
    ...(areApart ? [() => exchange(folder, another)] : []),
    ...(files.length === 0
      ? []
      : [
          () => fs.writeFileSync(file, content()),
          () => writeUnseen(file, `${random(1000)}`),
          () => fs.rmSync(file),
          () => fs.renameSync(file, fresh()),
          () => fs.renameSync(file, other),
          () => fs.linkSync(file, fresh()),
          () => fs.chmodSync(file, [0o600, 0o644, 0o755][random(3)] ?? 0o644),
        ]),
  ];
  one(changes)();
}

function isIn(path: string, folder: string): boolean {
  return `${path}/`.startsWith(`${folder}/`);
}

/** Writes another content of the same size, and sets the times back. */
function writeUnseen(file: string, text: string): void {
  const { size, atime, mtime } = fs.statSync(file);
  fs.writeFileSync(file, Buffer.alloc(size, text));
  fs.utimesSync(file, atime, mtime);
}

/** Nothing in the two folders gets another time. */
function exchange(folder: string, another: string): void {
  fs.renameSync(folder, `${another} aside`);
  fs.renameSync(another, folder);
  fs.renameSync(`${another} aside`, another);
}
