import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../cluster/process/run-command.ts";
import { pause } from "../cluster/process/wait-until.ts";
import type { Checker } from "./checker.ts";
import type { SoakObjects } from "./cluster/object-storage.ts";
import { type Content, FILES_FOLDER, readContent } from "./cluster/pod-files.ts";
import type { SoakCluster } from "./cluster/soak-cluster.ts";
import type { History } from "./history.ts";
import type { Pair } from "./objects.ts";

/** A checkpoint in the store. */
interface Stored {
  readonly pair: Pair;
  /** The file of its archive, which never changes. */
  readonly path: string;
}

const LOOK_EVERY_MS = 250;

/**
 * Tells the checker which checkpoints are in the store, from the store's own files. What it sees there is complete, and
 * so is all that the API server had accepted before it tells of it.
 */
export function followCheckpoints(options: {
  cluster: Pick<SoakCluster, "snapshots">;
  objects: SoakObjects | undefined;
  checker: Pick<Checker, "onCheckpoint">;
  history: Pick<History, "upToNow">;
  onTrouble(error: unknown): void;
}): { stop(): Promise<void> } {
  const { cluster, objects, checker, history, onTrouble } = options;
  const stopping = new AbortController();
  const contents = new Map<string, Content>();
  const list = objects === undefined ? () => onVolume(cluster.snapshots) : () => inBucket(objects.folder);
  const following = follow().catch(onTrouble);
  return {
    async stop() {
      stopping.abort();
      await following;
    },
  };

  async function follow(): Promise<void> {
    while (!stopping.signal.aborted) {
      await look();
      await pause(LOOK_EVERY_MS, stopping.signal);
    }
  }

  async function look(): Promise<void> {
    const seen: { pair: Pair; content: Content; isNew: boolean }[] = [];
    for (const { pair, path } of list()) {
      const isNew = !contents.has(path);
      const content = contents.get(path) ?? (await readArchive(path));
      if (content === undefined) continue;
      contents.set(path, content);
      seen.push({ pair, content, isNew });
    }
    if (seen.length === 0) return;
    await history.upToNow();
    if (stopping.signal.aborted) return;
    for (const { pair, content, isNew } of seen) checker.onCheckpoint(pair, content, isNew);
  }
}

function onVolume(folder: string): Stored[] {
  return namesIn(folder).flatMap((tenantId) =>
    namesIn(join(folder, tenantId, ".versions")).flatMap((workloadRef) => {
      const versions = join(folder, tenantId, ".versions", workloadRef);
      const names = namesIn(versions);
      const isCheckpoint = (archive: string): boolean =>
        names.some((name) => name.startsWith(`${archive}.`) && name.endsWith(".json") && isOne(join(versions, name)));
      const archives = names.filter((name) => name.endsWith(".tar.gz") && isCheckpoint(name));
      return archives.map((name) => ({ pair: { tenantId, workloadRef }, path: join(versions, name) }));
    }),
  );
}

function inBucket(folder: string): Stored[] {
  const heads = join(folder, "snapshots", "heads");
  return namesIn(heads).flatMap((tenantId) =>
    namesIn(join(heads, tenantId)).flatMap((name) => {
      const workloadRef = name.replace(/\.json$/, "");
      const { versions = [], checkpoints = [] } = readJson<Head>(join(heads, tenantId, name)) ?? {};
      return [...versions, ...checkpoints]
        .filter(({ kind }) => kind === "checkpoint")
        .map(({ blob }) => ({
          pair: { tenantId, workloadRef },
          path: join(folder, "snapshots", "archives", tenantId, workloadRef, blob),
        }));
    }),
  );
}

interface Entry {
  readonly kind?: string;
}

interface Head {
  readonly versions?: readonly (Entry & { readonly blob: string })[];
  readonly checkpoints?: Head["versions"];
}

function isOne(path: string): boolean {
  return readJson<Entry>(path)?.kind === "checkpoint";
}

/** Undefined if it is gone. */
function readJson<Value>(path: string): Value | undefined {
  return ifThere(() => JSON.parse(readFileSync(path, "utf8")) as Value);
}

function namesIn(folder: string): string[] {
  return ifThere(() => readdirSync(folder)) ?? [];
}

/** Undefined if it is gone by now, since a later checkpoint or a release has replaced it. */
async function readArchive(path: string): Promise<Content | undefined> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-soak-archive-"));
  try {
    const copy = join(folder, "archive");
    if (ifThere(() => copyFileSync(path, copy) ?? true) === undefined) return undefined;
    await runCommand("tar", ["-xzf", copy, "-C", folder, "--no-same-owner"]);
    return readContent(join(folder, FILES_FOLDER));
  } catch (error) {
    return `(${(error as Error).message})`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function ifThere<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
