import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream, renameSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { ApiError, type InstanceFile } from "../../client/index.ts";
import { type Command, CommandError, type Context, UsageError } from "../command.ts";
import { type CopyPlace, copyPlaceOf } from "../files/copy-place.ts";
import { packFolder, unpackFolder } from "../files/local-archive.ts";
import { createProgress, type Progress } from "../files/progress.ts";
import { idOf } from "../instance.ts";
import { piecesOf, pourTo } from "../pour.ts";

type Inside = Extract<CopyPlace, { kind: "instance" }>;

export const cp: Command = {
  name: "cp",
  summary: "Copy a file or folder to an instance, or from one",
  words: "<from> <to>",
  least: 2,
  notes: [
    "A path in an instance is tenant/workload:path or instance:path. A local path with a colon begins with / or ./.",
    "As with cp -r, what is copied goes into a folder that is there, and else gets the name that you write. Files are",
    "replaced, folders are merged. From an instance, links that lead out of the folder are left out.",
  ],
  examples: ["cp ./project alice/agent:/data/project", "cp alice/agent:/data/out.txt ."],
  async run({ words: [from = "", to = ""] }, context) {
    const [source, target] = [copyPlaceOf(from), copyPlaceOf(to)];
    const progress = createProgress(context.io.stderr);
    try {
      if (source.kind === "local" && target.kind === "instance")
        await upload(source.path, target, { ...context, progress });
      else if (source.kind === "instance" && target.kind === "local")
        await download(source, target.path, { ...context, progress });
      else throw new UsageError("Cannot copy: name one path here, and one as tenant/workload:path");
    } finally {
      await progress.end();
    }
    return 0;
  },
};

interface Tools extends Context {
  readonly progress: Progress;
}

async function upload(local: string, { where, path }: Inside, { client, signal, progress }: Tools): Promise<void> {
  const isFolder = localStat(local).isDirectory();
  const instance = await idOf(where, { client, signal });
  const there = await statOf(() => client.files.stat(instance, path, { signal }));
  const isInto = there?.type === "directory" || path.endsWith("/");
  const target = isInto ? `${path.replace(/\/+$/, "")}/${nameOf(local)}` : path;
  const body = progress.count(isFolder ? packFolder(local) : fileStream(local));
  if (isFolder) await client.files.upload(instance, target, body, { signal });
  else await client.files.write(instance, target, body, { mode: modeOf(local), signal });
}

async function download(
  { where, path }: Inside,
  local: string,
  { client, print, signal, progress }: Tools,
): Promise<void> {
  const instance = await idOf(where, { client, signal });
  const { type } = await client.files.stat(instance, path, { signal });
  const into = statSync(local, { throwIfNoEntry: false });
  const target = into?.isDirectory() ? join(local, nameOf(path)) : local;
  const onBytes = progress.add;
  if (type === "directory") {
    if (into?.isFile()) throw new CommandError(`Cannot replace the file ${local} by a folder`, { exitCode: 5 });
    const response = await client.files.download(instance, path, { signal });
    const leftOut = await unpackFolder(counted(piecesOf(response, signal), onBytes), target);
    for (const left of leftOut) await print.note(`left out: ${left}`);
    return;
  }
  const response = await client.files.read(instance, path, { signal });
  // The file that is there stays unless all of it has come.
  const making = `${target}.${randomUUID()}.part`;
  const output = createWriteStream(making, { flags: "wx" });
  try {
    await pourTo(output, response, { signal, onBytes });
    output.end();
    await finished(output);
    renameSync(making, target);
  } catch (error) {
    output.destroy();
    rmSync(making, { force: true });
    throw error;
  }
}

async function* counted(pieces: AsyncIterable<Uint8Array>, onBytes: (bytes: number) => void) {
  for await (const piece of pieces) {
    onBytes(piece.length);
    yield piece;
  }
}

/** The last part of a path, which is a tenant's: never one that leads elsewhere. */
function nameOf(path: string): string {
  const name = basename(path.replace(/\/+$/, ""));
  if (name === "" || name === "." || name === "..")
    throw new UsageError(`Cannot copy ${JSON.stringify(path)} into a folder: it has no name; write the target's`);
  return name;
}

function localStat(path: string): ReturnType<typeof statSync> & object {
  try {
    return statSync(path);
  } catch (cause) {
    throw new CommandError(`Cannot read ${path}: ${(cause as Error).message}`, { exitCode: 3, cause });
  }
}

function modeOf(path: string): string {
  return `0${(statSync(path).mode & 0o777).toString(8)}`;
}

function fileStream(path: string): ReadableStream<Uint8Array> {
  return Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array>;
}

async function statOf(stat: () => Promise<InstanceFile>): Promise<InstanceFile | undefined> {
  try {
    return await stat();
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}
