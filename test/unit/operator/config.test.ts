import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operatorConfig } from "../../../operator/config.ts";

const test = suite("operatorConfig");

test("has a default for everything", () => {
  assert.equal(operatorConfig({}), {
    namespace: "tenancy",
    cpuOvercommit: 1,
    memoryOvercommit: 1,
    startTimeoutMs: 300_000,
    nodeTimeoutMs: 60_000,
    leaseMs: 10_000,
    listen: { hostname: "127.0.0.1", port: 9090 },
    toolsImage: "busybox:1.37-musl",
    egress: { image: undefined, openedRanges: [], extraAuthorities: "" },
    secretPolicy: "any",
    snapshots: {
      ...{ size: "10Gi", sizeBytes: 10 * 1024 ** 3, maxArchiveBytes: 2.5 * 1024 ** 3, storageClass: undefined },
      ...{ ttlMs: undefined, concurrency: 4, timeoutMs: 3_600_000, retryLimitMs: 86_400_000 },
    },
    logLevel: "info",
  });
});

test("off and IPv6 addresses are understood", () => {
  assert.is(operatorConfig({ TENANCY_OPERATOR_LISTEN: "off" }).listen, undefined);
  assert.equal(operatorConfig({ TENANCY_OPERATOR_LISTEN: "[::1]:9000" }).listen, { hostname: "::1", port: 9000 });
});

test("quantities are bytes, and one archive may take a quarter of the volume unless it is said otherwise", () => {
  const bytes = (env: Record<string, string>) => {
    const { sizeBytes, maxArchiveBytes } = operatorConfig(env).snapshots;
    return [sizeBytes, maxArchiveBytes];
  };
  assert.equal(bytes({ TENANCY_SNAPSHOT_SIZE: "100" }), [100, 25]);
  assert.equal(bytes({ TENANCY_SNAPSHOT_SIZE: "3k", TENANCY_SNAPSHOT_LIMIT: "2Ki" }), [3000, 2048]);
  assert.equal(bytes({ TENANCY_SNAPSHOT_SIZE: "2T", TENANCY_SNAPSHOT_LIMIT: "5M" }), [2e12, 5e6]);
});

for (const [name, value, says] of [
  ["TENANCY_SNAPSHOT_LIMIT", "1.5Gi", /TENANCY_SNAPSHOT_LIMIT: must be a quantity such as 10Gi/],
  ["TENANCY_RELEASE_RETRY_LIMIT", "0", /TENANCY_RELEASE_RETRY_LIMIT: must be greater than 0/],
  ["TENANCY_NAMESPACE", "Not_A_Name", /TENANCY_NAMESPACE: must be the name of a namespace/],
  ["TENANCY_CPU_OVERCOMMIT", "0", /TENANCY_CPU_OVERCOMMIT: must be greater than 0/],
  ["TENANCY_CPU_OVERCOMMIT", "many", /TENANCY_CPU_OVERCOMMIT/],
  ["TENANCY_CPU_OVERCOMMIT", "", /TENANCY_CPU_OVERCOMMIT: must be greater than 0/],
  ["TENANCY_START_TIMEOUT", "-1", /TENANCY_START_TIMEOUT/],
  ["TENANCY_LEASE_SECONDS", "1", /TENANCY_LEASE_SECONDS: must be at least 2/],
  ["TENANCY_PROXY_IMAGE", "no image", /TENANCY_PROXY_IMAGE: must be an image reference/],
  ["TENANCY_EGRESS_PRIVATE_RANGES", "10.0.0.0/8,10.0.0.1", /TENANCY_EGRESS_PRIVATE_RANGES: must be ranges/],
  ["TENANCY_EGRESS_AUTHORITIES", "certs.pem", /TENANCY_EGRESS_AUTHORITIES: must be certificates in PEM/],
  ["TENANCY_SECRETS", "none", /TENANCY_SECRETS: must be any or labelled/],
  ["TENANCY_OPERATOR_LISTEN", "nonsense", /TENANCY_OPERATOR_LISTEN: must be host:port, or off/],
  ["TENANCY_OPERATOR_LISTEN", "127.0.0.1:99999", /TENANCY_OPERATOR_LISTEN/],
  ["TENANCY_LOG_LEVEL", "loud", /TENANCY_LOG_LEVEL/],
] as const) {
  test(`${name}=${value} is refused by name`, () => {
    assert.throws(() => operatorConfig({ [name]: value }), says);
  });
}

test("every problem is told at once", () => {
  assert.throws(
    () => operatorConfig({ TENANCY_NAMESPACE: "X", TENANCY_LOG_LEVEL: "loud" }),
    /TENANCY_NAMESPACE.*TENANCY_LOG_LEVEL/,
  );
});

test.run();
