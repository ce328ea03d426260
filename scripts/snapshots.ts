// npm run snapshots: copies snapshots and usage records from one store to another (docs/how-to/store-files-in-a-bucket.md).
import { createClusterClient } from "../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../crds/client/transport.ts";
import { annotation } from "../crds/labels.ts";
import { copyStore } from "../crds/snapshots/copy-store.ts";
import { openS3Store, openStore } from "../crds/snapshots/open-store.ts";
import type { SnapshotStore, StoreCall } from "../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_NAME } from "../crds/snapshots/store-folder.ts";
import { volumeLeftFor } from "../crds/snapshots/store-mark.ts";
import { copyUsage } from "../crds/usage/copy-usage.ts";
import type { UsageStore } from "../crds/usage/usage-store.ts";
import { type NamedStore, parseArguments, type SnapshotsArguments, USAGE } from "./snapshots/arguments.ts";
import { createCopyProgress } from "./snapshots/copy-progress.ts";
import { onInterrupt } from "./start/on-interrupt.ts";

/** The time limit for one archive. */
const LIMIT_MS = 3_600_000;

const log = (line: string): void => void process.stderr.write(`${line}\n`);
const stopping = new AbortController();
onInterrupt(() => {
  if (stopping.signal.aborted) process.exit(130);
  stopping.abort(new Error("stopped; run the same command again to continue"));
});

try {
  process.exitCode = await run(parseArguments(process.argv.slice(2), process.env));
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = stopping.signal.aborted ? 130 : 1;
}
// Idle connections would keep this process running for a while.
process.exit();

async function run(parsed: SnapshotsArguments): Promise<number> {
  if (parsed.command === "help") {
    process.stdout.write(USAGE);
    return 0;
  }
  const call = { signal: stopping.signal, timeoutMs: LIMIT_MS };
  const { from, to, deletes } = parsed;
  const source = await open(from, parsed);
  if (deletes) await checkIsLatest(source.leftFor, call.signal);
  const target = await open(to, parsed);
  await target.check?.(call);
  const progress = createCopyProgress({ log, now: () => performance.now() });
  const { begin: onBegin, take: onKey } = progress;
  await copyStore({ from: source.archives, to: target.archives }, { ...call, deletes, onBegin, onKey });
  const hasAll = progress.end();
  // After the archives: the first one marks a new volume.
  await copyRecords({ from: source.usage, to: target.usage }, { ...call, deletes });
  return hasAll ? 0 : 1;
}

async function copyRecords(
  stores: { from: UsageStore; to: UsageStore },
  { deletes, ...call }: StoreCall & { deletes: boolean },
): Promise<void> {
  const counts = { copied: 0, present: 0 };
  const onHour = (_: string, outcome: keyof typeof counts): void => {
    counts[outcome] += 1;
  };
  try {
    await copyUsage(stores, { ...call, isTargetUnused: deletes, onHour });
  } catch (cause) {
    call.signal.throwIfAborted();
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`Cannot copy the usage records, run the same command again: ${why}`, { cause });
  }
  log(`usage records: ${counts.copied} hours copied, ${counts.present} were there`);
}

async function open(
  { place, env }: NamedStore,
  { namespace, context }: { namespace: string; context: string | undefined },
): Promise<{
  archives: SnapshotStore;
  usage: UsageStore;
  check?: (call: { signal: AbortSignal; timeoutMs: number }) => Promise<void>;
  /** The store that archives were moved to after the volume was last used. */
  leftFor?: (signal: AbortSignal) => Promise<string | undefined>;
}> {
  if (place.kind === "s3") {
    const archives = openS3Store(place, { env });
    return { archives, usage: archives.usageRecords, check: archives.check };
  }
  const cluster = await loadClusterConfig({ context });
  const client = createClusterClient({ transport: createTransport({ config: cluster, role: "snapshots" }) });
  // An empty store is expected when copying.
  const { archives, usage, check } = openStore({ place, mayBeEmpty: true }, { client, cluster, namespace, env });
  return { archives, usage, check, leftFor: (signal) => volumeLeftFor({ client, namespace }, signal) };
}

/** If a store is no longer used, an archive that it does not have must not be deleted in another store. */
async function checkIsLatest(
  leftFor: ((signal: AbortSignal) => Promise<string | undefined>) | undefined,
  signal: AbortSignal,
): Promise<void> {
  const since = await leftFor?.(signal);
  if (since === undefined) return;
  throw new Error(
    `Cannot delete what the snapshots volume does not have: newer snapshots are in ${since}. If the volume is in use ` +
      `again, remove the annotation ${annotation.volumeLeft} from the claim ${SNAPSHOTS_NAME}; if it is not, there is ` +
      "nothing to delete",
  );
}
