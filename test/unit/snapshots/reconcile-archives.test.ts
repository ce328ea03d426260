import { test } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { label } from "../../../crds/labels.ts";
import type { StoreUse } from "../../../crds/snapshots/snapshot-store.ts";
import { reconcileArchives } from "../../../operator/snapshots/reconcile-archives.ts";
import { onS3, testOperator } from "../operator/test-operator.ts";
import { runningHelper } from "./helper-objects.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const { signal } = new AbortController();

/** One that was last in use so many milliseconds ago. */
function archive(tenantId: string, unusedMs: number): StoreUse {
  return { tenantId, workloadRef: "w", usedAt: new Date(Date.now() - unusedMs).toISOString() };
}

/** What `reconcileArchives` looks at, with archives in memory. */
function volume(options: {
  archives: readonly StoreUse[];
  ttlMs?: number;
  claims?: string[];
  /** That the cache does not show. */
  hidden?: string[];
  hasHelper?: boolean;
  /** @default volume */
  kind?: "volume" | "s3";
  /** How far the clocks of the API server and of the volume are behind this process's. @default 0 */
  serverBehindMs?: number;
  volumeBehindMs?: number;
}) {
  const { archives, ttlMs, hidden = [], hasHelper = true, kind = "volume" } = options;
  const { serverBehindMs = 0, volumeBehindMs = 0 } = options;
  const called: string[] = [];
  const pages: number[] = [];
  const places = new Map(archives.map(({ tenantId }, index) => [tenantId, index]));
  const { api, context } = testOperator({
    env: {
      ...(kind === "s3" && onS3),
      ...(ttlMs !== undefined && { TENANCY_SNAPSHOT_TTL: String(ttlMs / 1000) }),
    },
    snapshots: {
      tidy: async () => void called.push("tidy"),
      async uses({ after, limit }) {
        const from = after === undefined ? 0 : 1 + (places.get(after.tenantId) ?? 0);
        const items = archives.slice(from, from + limit);
        pages.push(items.length);
        return { items, next: from + limit < archives.length ? items.at(-1) : undefined };
      },
      touch: async (keys) => void called.push(`touch ${keys.map(({ tenantId }) => tenantId)}`),
      async delete({ tenantId }, { unusedForMs }) {
        const usedAt = archives.find((one) => one.tenantId === tenantId)?.usedAt ?? "";
        if (Date.parse(usedAt) + unusedForMs > Date.now() - volumeBehindMs) return false;
        called.push(`delete ${tenantId}`);
        return true;
      },
    },
  });
  api.now = () => Date.now() - serverBehindMs;
  context.serverNow = api.now;
  if (hasHelper) api.add(pods, runningHelper());
  for (const key of [...(options.claims ?? []), ...hidden]) {
    const [tenantId = "", workloadRef = ""] = key.split("/");
    const metadata = { name: `claim-${tenantId}-${workloadRef}`, labels: { [label.tenant]: tenantId } };
    api.add(claims, { metadata, spec: { tenantId, workloadRef } }, { hidden: hidden.includes(key) });
  }
  return { called, pages, tend: () => reconcileArchives(context, signal) };
}

test("reconcileArchives deletes nothing that this process's own clock does not find due", async () => {
  const ahead = { serverBehindMs: -HOUR_MS, volumeBehindMs: -HOUR_MS };
  const { called, tend } = volume({ archives: [archive("young", 1000)], ttlMs: MINUTE_MS, ...ahead });
  await tend();
  assert.equal(called, ["tidy"]);
});

test("reconcileArchives tidies, and deletes nothing without TENANCY_SNAPSHOT_TTL", async () => {
  const { called, tend } = volume({ archives: [archive("old", 1000 * HOUR_MS)] });
  assert.equal(await tend(), { requeueAfterMs: HOUR_MS });
  assert.equal(called, ["tidy"]);
});

test("reconcileArchives deletes what nobody has used for so long, however long ago it was made", async () => {
  const { called, tend } = volume({
    archives: [archive("unused", 2 * MINUTE_MS), archive("used", MINUTE_MS / 2)],
    ttlMs: MINUTE_MS,
    claims: ["unused/other", "other/w"],
  });
  await tend();
  assert.equal(called, ["tidy", "delete unused"]);
});

test("reconcileArchives notes that an archive is in use while its tenant has a claim, so that the time begins at its end", async () => {
  const archives = [archive("held", 100 * HOUR_MS), archive("noted", MINUTE_MS / 100)];
  const { called, tend } = volume({ archives, ttlMs: MINUTE_MS, claims: ["held/w", "noted/w"] });
  const { requeueAfterMs = 0 } = (await tend()) ?? {};
  assert.equal(called, ["tidy", "touch held"]);
  assert.ok(requeueAfterMs <= MINUTE_MS / 20, `${requeueAfterMs}: the note must be anew before the time is over`);
});

test("reconcileArchives asks the API server for claims that the cache does not show", async () => {
  const { called, tend } = volume({
    archives: [archive("new", 2 * MINUTE_MS), archive("cached", 2 * MINUTE_MS)],
    ttlMs: MINUTE_MS,
    claims: ["cached/w"],
    hidden: ["new/w"],
  });
  await tend();
  assert.equal(called, ["tidy", "touch cached"]);
});

for (const behind of ["serverBehindMs", "volumeBehindMs"] as const) {
  test(`reconcileArchives deletes nothing on the word of a clock that is ahead (${behind})`, async () => {
    const { called, tend } = volume({ archives: [archive("a", 2 * MINUTE_MS)], ttlMs: MINUTE_MS, [behind]: HOUR_MS });
    await tend();
    assert.equal(called, ["tidy"]);
  });
}

test("reconcileArchives comes again when the next archive is due, within the hour at the latest", async () => {
  const soon = await volume({ archives: [archive("young", MINUTE_MS / 2)], ttlMs: MINUTE_MS }).tend();
  assert.ok(soon && soon.requeueAfterMs <= MINUTE_MS && soon.requeueAfterMs > 1000, JSON.stringify(soon));
  const later = await volume({ archives: [archive("young", 0)], ttlMs: 100 * HOUR_MS }).tend();
  assert.equal(later, { requeueAfterMs: HOUR_MS });
});

test("reconcileArchives reads two hundred thousand archives in pages, and ends", async () => {
  const old = { ...archive("old", 2 * HOUR_MS), tenantId: "t199998" };
  const archives = Array.from({ length: 200_000 }, (_, index) => archive(`t${index}`, 0));
  archives[199_998] = old;
  const { called, pages, tend } = volume({ archives, ttlMs: HOUR_MS, claims: ["t3/w", "t777/w"] });
  const { requeueAfterMs = 0 } = (await tend()) ?? {};
  assert.equal(called, ["tidy", "delete t199998"]);
  assert.equal([pages.length, Math.max(...pages)], [400, 500]);
  // The use of some has to be noted again.
  assert.ok(requeueAfterMs <= HOUR_MS / 20, `${requeueAfterMs}`);
});

test("reconcileArchives asks nothing of a helper pod that is not there", async () => {
  const { called, tend } = volume({ archives: [archive("old", HOUR_MS)], ttlMs: MINUTE_MS, hasHelper: false });
  assert.equal(await tend(), { requeueAfterMs: HOUR_MS });
  assert.equal(called, []);
});

test("reconcileArchives needs no helper pod in object storage", async () => {
  const { called, tend } = volume({
    archives: [archive("old", HOUR_MS)],
    ttlMs: MINUTE_MS,
    hasHelper: false,
    kind: "s3",
  });
  await tend();
  assert.equal(called, ["tidy", "delete old"]);
});

test.run();
