import { test } from "uvu";
import * as assert from "uvu/assert";
import { withinQuota } from "../../../crds/snapshots/quota.ts";
import { QuotaError } from "../../../crds/snapshots/snapshot-store.ts";

const MIB = 1024 * 1024;
const key = { tenantId: "a", workloadRef: "w" };
const history = (mib: number) => ({ sizeBytes: mib * MIB, kept: "history" as const });
const replaced = (mib: number) => ({ sizeBytes: mib * MIB, kept: "replaced" as const });

const isQuotaError = (error: unknown): boolean => error instanceof QuotaError;

function within(given: Partial<Parameters<typeof withinQuota>[1]> & { tenant?: number; workload?: number }) {
  const { tenant, workload, ...state } = given;
  const most = {
    ...{ history: 9, replaced: 3 },
    ...(tenant !== undefined && { tenantBytes: tenant * MIB }),
    ...(workload !== undefined && { workloadBytes: workload * MIB }),
  };
  const none = { sizeBytes: 4 * MIB, older: [], bytesBefore: 0, others: { ofTenant: 0, ofWorkload: 0 } };
  return withinQuota(key, { ...none, ...state, most });
}

test("all stay without a limit, and within it", () => {
  const older = [history(5), replaced(5)];
  assert.equal(within({ older }), older);
  assert.equal(within({ older, tenant: 14, workload: 14 }), older);
});

test("history goes, the oldest first and no more than has to; what was replaced stays", () => {
  const older = [history(1), replaced(2), history(3), history(4)];
  assert.equal(within({ older, tenant: 10 }), [history(1), replaced(2), history(3)]);
  assert.equal(within({ older, tenant: 9 }), [history(1), replaced(2)]);
  assert.equal(within({ older, workload: 6 }), [replaced(2)]);
  assert.throws(() => within({ older, workload: 5 }), isQuotaError);
});

test("what is stored once counts once, and does not go where that makes no room", () => {
  const gone = (mib: number, sha256: string) => ({ ...history(mib), sha256 });
  const older = [gone(1, "other"), gone(4, "same")];
  assert.equal(within({ sha256: "same", older, tenant: 5 }), older);
  assert.equal(within({ sha256: "same", older, tenant: 4 }), [gone(4, "same")]);
  assert.equal(within({ older, tenant: 5 }), [gone(1, "other")]);
  assert.throws(() => within({ sha256: "same", older, tenant: 3 }), isQuotaError);
});

test("other snapshots count, and the message says whose and what to do", () => {
  const others = { ofTenant: 7 * MIB, ofWorkload: 2 * MIB };
  assert.equal(within({ others, tenant: 11, workload: 6 }), []);
  assert.throws(
    () => within({ others, tenant: 10, workload: 6 }),
    /it would take 11 MiB of 10 MiB \(TENANCY_SNAPSHOT_TENANT_LIMIT, or snapshotMb of its quota\) for tenant "a": delete snapshots of other/,
  );
  assert.throws(
    () => within({ others, tenant: 11, workload: 5 }),
    /it would take 6 MiB of 5 MiB \(TENANCY_SNAPSHOT_WORKLOAD_LIMIT\) for workload "w": delete snapshots of tenants/,
  );
});

test("what adds nothing is never too much, however low the limit was set since", () => {
  const older = [replaced(5)];
  assert.equal(within({ older, bytesBefore: 9 * MIB, tenant: 1 }), older);
  assert.throws(() => within({ older, bytesBefore: 8 * MIB, tenant: 1 }), isQuotaError);
});

test.run();
