import type { SnapshotMetadata } from "./snapshot-metadata.ts";
import type { KeptAs, MostKept } from "./snapshot-store.ts";
import { isNamed, withNames } from "./version-names.ts";

interface Version extends Pick<SnapshotMetadata, "sha256" | "names"> {
  readonly kept: KeptAs;
  readonly kind?: "checkpoint" | undefined;
}

/** Of the sessions that ended without a save, so many have their checkpoint kept. */
const MOST_OF_OTHERS = 3;

type Saved = Pick<SnapshotMetadata, "sha256" | "kind" | "session" | "names">;

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

/** Whether an archive is a checkpoint of this session, also one with a name. */
export function isOfSession(session: string | undefined, one: Omit<Saved, "sha256">): boolean {
  return session !== undefined && one.kind === "checkpoint" && one.session === session;
}

/** Whether an archive is the checkpoint of this session that its next save replaces. */
export function isCheckpointOf(session: string | undefined, one: Omit<Saved, "sha256">): boolean {
  return isOfSession(session, one) && !isNamed(one);
}

/**
 * The checkpoints that go when another one is added: that of the same session, and the oldest ones of other sessions,
 * which ended without a save.
 *
 * @param archives the latest first
 */
export function replacedBy<T extends Omit<Saved, "sha256">>(session: string | undefined, archives: readonly T[]): T[] {
  const others = withoutCheckpointOf(session, archives).filter((one) => one.kind === "checkpoint" && !isNamed(one));
  return [...archives.filter((one) => isCheckpointOf(session, one)), ...others.slice(MOST_OF_OTHERS)];
}

/**
 * The archives without the checkpoint of a session, which the next save of that session replaces. Those with a name
 * stay; {@link afterSession} also has to make them ordinary versions.
 */
export function withoutCheckpointOf<T extends Omit<Saved, "sha256">>(
  session: string | undefined,
  archives: readonly T[],
): T[] {
  return archives.filter((one) => !isCheckpointOf(session, one));
}

/**
 * How a checkpoint is stored. `added`: as the latest older version. `present`: not at all, since another save has
 * stored the same archive. `shared`: only another session's checkpoint has stored the same archive. That one becomes an
 * ordinary version, so that the end of one session does not delete the files of the other.
 */
export type CheckpointPlan<T> = { readonly kind: "added" } | { readonly kind: "present" | "shared"; readonly same: T };

/** @param archives the archives of the key, the newest first */
export function planCheckpoint<T extends Saved>(checkpoint: Saved, archives: readonly T[]): CheckpointPlan<T> {
  const same = withoutCheckpointOf(checkpoint.session, archives).filter(({ sha256 }) => sha256 === checkpoint.sha256);
  const staying = same.find((one) => one.kind !== "checkpoint" || isOfSession(checkpoint.session, one));
  if (staying !== undefined) return { kind: "present", same: staying };
  return same[0] === undefined ? { kind: "added" } : { kind: "shared", same: same[0] };
}

/**
 * The archives after a save of the session that is no checkpoint: its checkpoints that stay, since they have names, are
 * ordinary versions then. Otherwise they would be restored after the loss of a later pod, in the place of that save.
 */
export function afterSession<T extends Omit<Saved, "sha256"> & Pick<SnapshotMetadata, "continues">>(
  session: string | undefined,
  archives: readonly T[],
): (T | ReturnType<typeof asOrdinary<T>>)[] {
  const left = withoutCheckpointOf(session, archives);
  return left.map((one) => (isOfSession(session, one) ? asOrdinary(one) : one));
}

/** A version that no longer belongs to one session. */
export function asOrdinary<T extends Pick<SnapshotMetadata, "kind" | "session" | "continues">>(
  version: T,
): Omit<T, "kind" | "session" | "continues"> {
  const { kind: _, session: __, continues: ___, ...ordinary } = version;
  return ordinary;
}

/** @throws TypeError if a checkpoint does not name its session: then no later save would replace it */
export function checkCheckpoint({ kind, session }: Omit<Saved, "sha256">): void {
  if (kind !== "checkpoint" || session !== undefined) return;
  throw new TypeError("Cannot store a checkpoint that does not name its session");
}
