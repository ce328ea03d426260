import type { SnapshotMetadata } from "./snapshot-metadata.ts";
import type { KeptAs, KeptSnapshots, MostKept } from "./snapshot-store.ts";
import { isNamed, withNames } from "./version-names.ts";

interface Version extends Pick<SnapshotMetadata, "sha256" | "names"> {
  readonly kept: KeptAs;
  readonly kind?: "checkpoint" | undefined;
}

/** Of the sessions that ended without a save, so many have their checkpoint kept. */
const MOST_OF_OTHERS = 3;
/** So many sessions go on from one version at most. */
const MOST_OF_ONE = 5;

type Saved = Pick<SnapshotMetadata, "sha256" | "kind" | "session" | "names" | "checkpointOf">;

/** All archives of a key, the newest first. */
export function allArchives({ newest, versions }: Pick<KeptSnapshots, "newest" | "versions">): SnapshotMetadata[] {
  return newest === undefined ? [...versions] : [newest, ...versions];
}

/**
 * The older versions that stay after a commit, the latest first.
 *
 * Checkpoints count apart: they take no place of a version that protects a tenant from a forgotten `resume`. Named
 * versions stay, and do not count.
 *
 * @param older the older versions before the commit, the latest first
 * @param state.added the version that the commit adds; it stays whatever `most` is
 * @param state.next the SHA-256 of the committed archive. A version with this SHA-256 (after a rollback) stays and does
 *   not count for `most`: it takes no additional space, so no other version has to go
 */
export function keptVersions<T extends Version>(
  older: readonly T[],
  { added, next, most }: { added?: T | undefined; next: string | undefined; most: Pick<MostKept, KeptAs> },
): T[] {
  const left = { history: most.history, replaced: most.replaced, checkpoint: MOST_OF_OTHERS };
  if (added !== undefined && added.sha256 !== next && !isNamed(added)) left[added.kept] -= 1;
  const staying = older.filter(({ sha256, kept, kind = kept, names }) => {
    if (sha256 === added?.sha256) return false;
    if (sha256 === next || isNamed({ names })) return true;
    left[kind] -= 1;
    return left[kind] >= 0;
  });
  return added === undefined ? staying : [added, ...staying];
}

/**
 * The newest archive as an older version, when it is replaced; undefined if it is not kept.
 *
 * If it also exists as an older version that is kept as `replaced`, it stays `replaced`, since that replacement may have
 * been unintended, however many sessions started from it.
 *
 * @param keep why it is kept. @default only a named one is kept, unless the next archive has the same content
 */
export function asOlder<T extends Omit<Version, "kept">>(
  newest: T | undefined,
  { keep, older, next }: { keep: KeptAs | undefined; older: readonly Version[]; next: string | undefined },
): (T & { readonly kept: KeptAs }) | undefined {
  if (newest === undefined || (keep === undefined && (!isNamed(newest) || newest.sha256 === next))) return undefined;
  const wasReplaced = older.some(({ sha256, kept }) => sha256 === newest.sha256 && kept === "replaced");
  return { ...withNames(newest, older), kept: wasReplaced ? "replaced" : (keep ?? "history") };
}

/**
 * Whether an archive is what the session goes on from after the loss of a pod: its checkpoint, or a version that has the
 * same files. There is at most one.
 */
export function isOfSession(
  session: string | undefined,
  { kind, session: own, checkpointOf = [] }: Omit<Saved, "sha256">,
): boolean {
  return session !== undefined && ((kind === "checkpoint" && own === session) || checkpointOf.includes(session));
}

/** Whether an archive is the checkpoint of this session that its next save deletes. */
export function isCheckpointOf(session: string | undefined, one: Omit<Saved, "sha256">): boolean {
  return one.kind === "checkpoint" && isOfSession(session, one) && !isNamed(one);
}

/** The oldest checkpoints of other sessions, which ended without a save: they go when another one is added. */
export function surplusCheckpoints<T extends Omit<Saved, "sha256">>(
  session: string | undefined,
  archives: readonly T[],
): T[] {
  const others = archives.filter((one) => one.kind === "checkpoint" && one.session !== session && !isNamed(one));
  return others.slice(MOST_OF_OTHERS);
}

/**
 * How a checkpoint is stored. `added`: as the latest older version. `present`: another save has stored the same archive,
 * which takes its place as `marked`.
 */
export type CheckpointPlan<T> =
  | { readonly kind: "added" }
  | { readonly kind: "present"; readonly same: T; readonly marked: Marked<T> };

type Ofs = Pick<SnapshotMetadata, "kind" | "continues" | "checkpointOf">;
type Marked<T> = T | (Omit<T, keyof Ofs> & Ofs);

/** @param archives the archives of the key, the newest first */
export function planCheckpoint<T extends Saved & Ofs>(checkpoint: Saved, archives: readonly T[]): CheckpointPlan<T> {
  const { sha256, session = "" } = checkpoint;
  const all = archives.filter((one) => one.sha256 === sha256 && !isCheckpointOf(session, one));
  const same = all.find((one) => isOfSession(session, one)) ?? all.find(({ kind }) => kind !== "checkpoint") ?? all[0];
  if (same === undefined) return { kind: "added" };
  if (isOfSession(session, same)) return { kind: "present", same, marked: same };
  // The end of one session must not delete the files of the other.
  const { kind, continues: _, checkpointOf = [], ...ordinary } = same;
  const others = kind === "checkpoint" ? [same.session ?? ""] : checkpointOf;
  return { kind: "present", same, marked: { ...ordinary, checkpointOf: [...others.slice(1 - MOST_OF_ONE), session] } };
}

/** The archive as one that the session does not go on from. If it stays, it is an ordinary version. */
export function detached<T extends Saved & Ofs>(session: string | undefined, archive: T): Marked<T> {
  if (!isOfSession(session, archive)) return archive;
  const { kind, continues, checkpointOf = [], ...ordinary } = archive;
  if (kind === "checkpoint") return ordinary;
  const left = checkpointOf.filter((one) => one !== session);
  return left.length === 0 ? ordinary : { ...ordinary, checkpointOf: left };
}

/**
 * The archives after a later save of the session. Those of its checkpoints that have names stay as ordinary versions:
 * otherwise they would be restored after the loss of a pod, in the place of that save.
 *
 * @param except the SHA-256 of that save, if it is a checkpoint
 */
export function afterSession<T extends Saved & Ofs>(
  session: string | undefined,
  archives: readonly T[],
  except?: string,
): Marked<T>[] {
  const left = archives.filter((one) => one.sha256 === except || !isCheckpointOf(session, one));
  return left.map((one) => (one.sha256 === except ? one : detached(session, one)));
}

/** A version that belongs to no session: a copy of it, or one to go back to. */
export function asOrdinary<T extends Pick<SnapshotMetadata, "session"> & Ofs>(
  version: T,
): Omit<T, "session" | keyof Ofs> {
  const { kind: _, session: __, continues: ___, checkpointOf: ____, ...ordinary } = version;
  return ordinary;
}

/** @throws TypeError if a checkpoint does not name its session: then no later save would replace it */
export function checkCheckpoint({ kind, session }: Omit<Saved, "sha256">): void {
  if (kind !== "checkpoint" || session !== undefined) return;
  throw new TypeError("Cannot store a checkpoint that does not name its session");
}
