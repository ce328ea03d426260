import { isObjectName, isTenantId } from "../names.ts";
import type { SnapshotKey } from "./snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "./snapshot-metadata.ts";

/** An archive beside which nothing is recorded that fits it: it can be deleted, and not be restored. */
export interface UnrecordedArchive extends SnapshotKey {
  /** Bytes of the archive. */
  readonly sizeBytes: number;
  /** ISO 8601 time of its last change. */
  readonly changedAt: string;
}

/** All archives of a snapshots volume, in no order. */
export interface SnapshotList {
  /** What is recorded of each archive. */
  readonly snapshots: SnapshotMetadata[];
  readonly unrecorded: UnrecordedArchive[];
}

/** An archive as the two looks at it saw it. */
interface SeenArchive {
  readonly sizes: Set<number>;
  wasBefore: boolean;
  after?: UnrecordedArchive;
}

const ARCHIVE = /^(before|after) (\d+) (?:(\d+) )?\.\/([^/]+)\/([^/]+)\.tar\.gz$/;

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

  const newest = new Map<string, SnapshotMetadata>();
  for (const found of recorded) {
    const key = keyOf(found);
    const known = newest.get(key);
    if (archives.get(key)?.sizes.has(found.sizeBytes) !== true) continue;
    if (known === undefined || known.createdAt < found.createdAt) newest.set(key, found);
  }
  const unrecorded = [...archives]
    .filter(([key, { wasBefore }]) => wasBefore && !newest.has(key))
    .flatMap(([, { after = [] }]) => after);
  return { snapshots: [...newest.values()], unrecorded };
}

function noteArchive(line: string, archives: Map<string, SeenArchive>): void {
  const [, when, size, seconds, tenantId = "", workloadRef = ""] = ARCHIVE.exec(line) ?? [];
  if (!isTenantId(tenantId) || !isObjectName(workloadRef)) return;
  const key = keyOf({ tenantId, workloadRef });
  const seen = archives.get(key) ?? { sizes: new Set(), wasBefore: false };
  archives.set(key, seen);
  const sizeBytes = Number(size);
  seen.sizes.add(sizeBytes);
  if (when === "before") seen.wasBefore = true;
  else {
    const changedAt = new Date(Number(seconds) * 1000).toISOString();
    seen.after = { tenantId, workloadRef, sizeBytes, changedAt };
  }
}

/** Neither part can hold a slash. */
function keyOf({ tenantId, workloadRef }: SnapshotKey): string {
  return `${tenantId}/${workloadRef}`;
}
