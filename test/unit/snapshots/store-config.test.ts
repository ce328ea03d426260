import { suite } from "uvu";
import * as assert from "uvu/assert";
import * as v from "valibot";
import { storeConfig, storeEnvironment } from "../../../crds/snapshots/store-config.ts";

const test = suite("storeConfig");

function parse(env: Record<string, string>) {
  return storeConfig(v.parse(v.object(storeEnvironment), env));
}

test("keeps one version and what was replaced, on the volume, unless told otherwise", () => {
  const { place, most } = parse({});
  assert.equal(place, { kind: "volume", access: "direct" });
  assert.equal(most, { history: 0, replaced: 3 });
});

test("reads what operator and edge share", () => {
  const { place, most } = parse({
    TENANCY_SNAPSHOT_ACCESS: "api-server",
    TENANCY_SNAPSHOT_KEEP: "5",
    TENANCY_SNAPSHOT_TENANT_LIMIT: "1Gi",
    TENANCY_SNAPSHOT_WORKLOAD_LIMIT: "2G",
  });
  assert.equal(place, { kind: "volume", access: "api-server" });
  assert.equal(most, { history: 4, replaced: 3, tenantBytes: 1024 ** 3, workloadBytes: 2e9 });
});

test("keeps archives in object storage where it is told to", () => {
  const env = { TENANCY_SNAPSHOT_STORE: "s3://bucket/prefix", TENANCY_SNAPSHOT_REGION: "eu-central-1" };
  const { place, mayBeEmpty } = parse({ ...env, TENANCY_SNAPSHOT_STORE_EMPTY: "true" });
  assert.equal([place.kind, mayBeEmpty], ["s3", true]);
});

test("refuses what it does not know", () => {
  for (const env of [
    { TENANCY_SNAPSHOT_ACCESS: "proxy" },
    { TENANCY_SNAPSHOT_KEEP: "0" },
    { TENANCY_SNAPSHOT_TENANT_LIMIT: "much" },
  ]) {
    assert.throws(() => parse(env), /must be/);
  }
});

test.run();
