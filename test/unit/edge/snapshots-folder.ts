import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A snapshots volume as a folder of this machine. */
export interface SnapshotsFolder {
  readonly path: string;
  /** Puts an archive of ten bytes there, as a save does. */
  save(tenantId: string, workloadRef: string): void;
  /** Puts an older version of an archive there. */
  keep(tenantId: string, workloadRef: string): void;
  remove(): void;
}

const CONTENT = "an archive";
/** SHA-256 of each archive, which is recorded beside it. */
export const DIGEST = createHash("sha256").update(CONTENT).digest("hex");

export function snapshotsFolder(): SnapshotsFolder {
  const path = mkdtempSync(join(tmpdir(), "tenancy-snapshots-"));
  function put(archive: string, tenantId: string, workloadRef: string): void {
    const metadata = {
      ...{ sha256: DIGEST, sizeBytes: 10, tenantId, workloadRef, uid: 1, gid: 1, entries: 1, contentBytes: 10 },
      ...{ createdAt: "2026-11-21T12:00:00.000Z", overlayDirs: ["/data"] },
    };
    mkdirSync(dirname(archive), { recursive: true });
    writeFileSync(`${archive}.${DIGEST.slice(0, 16)}.json`, `${JSON.stringify(metadata)}\n`);
    writeFileSync(archive, CONTENT);
  }
  return {
    path,
    save: (tenantId, workloadRef) => put(join(path, tenantId, `${workloadRef}.tar.gz`), tenantId, workloadRef),
    keep(tenantId, workloadRef) {
      put(join(path, tenantId, ".versions", workloadRef, `${DIGEST.slice(0, 16)}.tar.gz`), tenantId, workloadRef);
    },
    remove: () => rmSync(path, { recursive: true, force: true }),
  };
}
