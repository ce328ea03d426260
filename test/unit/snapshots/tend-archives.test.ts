import { test } from "uvu";
import * as assert from "uvu/assert";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { tendArchives } from "../../../operator/snapshots/tend-archives.ts";
import { silentLog } from "../silent-log.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const { signal } = new AbortController();

function archive(tenantId: string, ageMs: number): SnapshotMetadata {
  return {
    ...{ tenantId, workloadRef: "w", uid: 0, gid: 0, entries: 0, contentBytes: 0, sizeBytes: 1, overlayDirs: [] },
    sha256: tenantId.padEnd(64, "0"),
    createdAt: new Date(Date.now() - ageMs).toISOString(),
  };
}

/** What `tendArchives` looks at, with archives in memory. */
function volume(options: { archives: SnapshotMetadata[]; ttlMs?: number; claims?: string[]; hasHelper?: boolean }) {
  const { archives, ttlMs, claims = [], hasHelper = true } = options;
  const called: string[] = [];
  const context = {
    informers: {
      helperPods: { store: { size: hasHelper ? 1 : 0 } },
      claims: { store: { by: (_index: "pair", pair: string) => new Set(claims.filter((claim) => claim === pair)) } },
    },
    snapshots: {
      tidy: async () => void called.push("tidy"),
      list: async () => archives,
      async delete({ tenantId }: SnapshotMetadata) {
        called.push(`delete ${tenantId}`);
        return true;
      },
    },
    config: { snapshots: { ttlMs } },
    log: silentLog,
  };
  return { called, tend: () => tendArchives(context as unknown as OperatorContext, signal) };
}

test("tendArchives tidies, and deletes nothing without TENANCY_SNAPSHOT_TTL", async () => {
  const { called, tend } = volume({ archives: [archive("old", 1000 * HOUR_MS)] });
  assert.equal(await tend(), { requeueAfterMs: HOUR_MS });
  assert.equal(called, ["tidy"]);
});

test("tendArchives deletes what is older, and nothing of a tenant who has a claim on that workload", async () => {
  const { called, tend } = volume({
    archives: [archive("old", 2 * MINUTE_MS), archive("young", MINUTE_MS / 2), archive("held", 2 * MINUTE_MS)],
    ttlMs: MINUTE_MS,
    claims: ["held/w", "old/other", "other/w"],
  });
  await tend();
  assert.equal(called, ["tidy", "delete old"]);
});

test("tendArchives comes again when the next archive is due, within the hour at the latest", async () => {
  const soon = await volume({ archives: [archive("young", MINUTE_MS / 2)], ttlMs: MINUTE_MS }).tend();
  assert.ok(soon && soon.requeueAfterMs <= MINUTE_MS / 2 && soon.requeueAfterMs > 1000, JSON.stringify(soon));
  const later = await volume({ archives: [archive("young", 0)], ttlMs: 100 * HOUR_MS }).tend();
  assert.equal(later, { requeueAfterMs: HOUR_MS });
});

test("tendArchives asks nothing of a helper pod that is not there", async () => {
  const { called, tend } = volume({ archives: [archive("old", HOUR_MS)], ttlMs: 1000, hasHelper: false });
  assert.equal(await tend(), { requeueAfterMs: HOUR_MS });
  assert.equal(called, []);
});

test.run();
