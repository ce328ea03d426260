import { isObjectName, isTenantId } from "../names.ts";
import type { SnapshotKey } from "./snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "./snapshot-metadata.ts";
import { archiveDigits } from "./store-scripts.ts";

/** An archive beside which nothing is recorded that fits it: it can be deleted, and not be restored. */
export interface UnrecordedArchive extends SnapshotKey {
  /** The digits that name it, of an older version; undefined of the newest archive. */
  readonly version?: string;
  /** Bytes of the archive. */
  readonly sizeBytes: number;
  /** ISO 8601 time, by the volume's clock, at which it was written or last in use. */
  readonly usedAt: string;
}

/** What is recorded of an archive, and where it is. */
export interface ListedSnapshot extends SnapshotMetadata {
  /** As of an unrecorded one. */
  readonly version?: string;
  readonly usedAt: string;
}

/** Archives of a snapshots volume, in no order. */
export interface SnapshotList {
  readonly snapshots: ListedSnapshot[];
  readonly unrecorded: UnrecordedArchive[];
}

/** An archive as the two looks at it saw it. */
interface SeenArchive {
  readonly version: string | undefined;
  readonly sizes: Set<number>;
  wasBefore: boolean;
  after?: UnrecordedArchive;
}

const ARCHIVE =
  /^(before|after) (\d+) (?:(\d+) )?\.\/([^/]+)\/(?:\.versions\/([^/]+)\/([0-9a-f]{16})|([^/]+))\.tar\.gz$/;

/** Reads the output of the store's script `list`; undefined when it is not whole. */
export function parseSnapshotList(output: string): SnapshotList | undefined {
  const lines = output.split("\n");
  const [last, afterLast] = lines.splice(-2);
  if (afterLast !== "" || last !== `end ${lines.length}`) return undefined;

  const archives = new Map<string, SeenArchive>();
  const recorded: SnapshotMetadata[] = [];
  for (const line of lines) {
    if (line.startsWith("{")) {
      const found = parseSnapshotMetadata(line);
      if (found !== undefined) recorded.push(found);
    } else noteArchive(line, archives);
  }

  const fitting = new Map<string, SnapshotMetadata>();
  for (const found of recorded) {
    for (const key of [keyOf(found), keyOf({ ...found, version: archiveDigits(found.sha256) })]) {
      const known = fitting.get(key);
      if (archives.get(key)?.sizes.has(found.sizeBytes) !== true) continue;
      if (known === undefined || known.createdAt < found.createdAt) fitting.set(key, found);
    }
  }
  const snapshots: ListedSnapshot[] = [];
  const unrecorded: UnrecordedArchive[] = [];
  for (const [key, { version, wasBefore, after }] of archives) {
    const found = fitting.get(key);
    if (found === undefined) {
      if (wasBefore && after !== undefined) unrecorded.push(after);
      continue;
    }
    const { usedAt = found.createdAt } = after ?? {};
    snapshots.push({ ...found, usedAt, ...(version !== undefined && { version }) });
  }
  return { snapshots, unrecorded };
}

function noteArchive(line: string, archives: Map<string, SeenArchive>): void {
  const [, when, size, seconds, tenantId = "", of, version, newest] = ARCHIVE.exec(line) ?? [];
  const workloadRef = of ?? newest ?? "";
  if (!isTenantId(tenantId) || !isObjectName(workloadRef)) return;
  const place = { tenantId, workloadRef, ...(version !== undefined && { version }) };
  const key = keyOf(place);
  const seen = archives.get(key) ?? { version, sizes: new Set(), wasBefore: false };
  archives.set(key, seen);
  const sizeBytes = Number(size);
  seen.sizes.add(sizeBytes);
  if (when === "before") seen.wasBefore = true;
  else {
    seen.after = { ...place, sizeBytes, usedAt: new Date(Number(seconds) * 1000).toISOString() };
  }
}

/** No part can hold a slash. */
function keyOf({ tenantId, workloadRef, version }: SnapshotKey & { version?: string }): string {
  return version === undefined ? `${tenantId}/${workloadRef}` : `${tenantId}/${workloadRef}/${version}`;
}
