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
    queueTimeoutMs: 600_000,
    nodeTimeoutMs: 60_000,
    watchNodes: false,
    leaseMs: 10_000,
    listen: { hostname: "127.0.0.1", port: 9090 },
    toolsImage: "busybox:1.37-musl",
    imagePullHint: undefined,
    egress: { image: undefined, openedRanges: [], extraAuthorities: "" },
    podServiceAccounts: [],
    secretPolicy: "any",
    snapshots: {
      store: {
        place: { kind: "volume", access: "direct" },
        ...{ mayBeEmpty: false, most: { history: 0, replaced: 3 } },
      },
      helper: { image: undefined, program: undefined, ownPod: undefined },
      ...{ size: "10Gi", sizeBytes: 10 * 1024 ** 3, maxArchiveBytes: 2.5 * 1024 ** 3, storageClass: undefined },
      ...{ ttlMs: undefined, concurrency: 4, timeoutMs: 3_600_000, retryLimitMs: 86_400_000 },
    },
    usage: true,
    sink: undefined,
    usageTtlMs: undefined,
    builds: undefined,
    tracing: undefined,
    logLevel: "info",
  });
});

test("archives in object storage are as large and as long on their way as that takes them", () => {
  const env = { TENANCY_SNAPSHOT_STORE: "s3://bucket", TENANCY_SNAPSHOT_REGION: "eu-central-1" };
  assert.is(operatorConfig(env).snapshots.maxArchiveBytes, 48 * 1024 ** 3);
  assert.is(operatorConfig({ ...env, TENANCY_SNAPSHOT_LIMIT: "1Gi" }).snapshots.maxArchiveBytes, 1024 ** 3);
  assert.throws(() => operatorConfig({ ...env, TENANCY_SNAPSHOT_LIMIT: "49Gi" }), /at most 48Gi/);
  assert.throws(() => operatorConfig({ ...env, TENANCY_SNAPSHOT_TIMEOUT: "86400" }), /less than a day/);
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

test("the time and the number of saves and restores are taken as they are said", () => {
  const env = { TENANCY_SNAPSHOT_TIMEOUT: "90", TENANCY_SNAPSHOT_CONCURRENCY: "7" };
  const { timeoutMs, concurrency } = operatorConfig(env).snapshots;
  assert.equal([timeoutMs, concurrency], [90_000, 7]);
});

for (const [name, value, says] of [
  ["TENANCY_SNAPSHOT_LIMIT", "1.5Gi", "must be a quantity such as 10Gi"],
  ["TENANCY_SNAPSHOT_TTL", "59", "must be a number of seconds, at least 60"],
  ["TENANCY_USAGE_TTL", "1", "must be a number of days, at least 2"],
  ["TENANCY_SNAPSHOT_CONCURRENCY", "1.5", "must be a whole number from 1 to 1000"],
  ["TENANCY_RELEASE_RETRY_LIMIT", "0", "must be a number of seconds greater than 0"],
  [
    "TENANCY_NAMESPACE",
    "Not_A_Name",
    "must be the name of a namespace: at most 63 lower-case letters, digits and dashes",
  ],
  [
    "TENANCY_NAMESPACE",
    "a".repeat(64),
    "must be the name of a namespace: at most 63 lower-case letters, digits and dashes",
  ],
  ["TENANCY_CPU_OVERCOMMIT", "0", "must be a number greater than 0"],
  ["TENANCY_CPU_OVERCOMMIT", "many", "must be a number greater than 0"],
  ["TENANCY_MEMORY_OVERCOMMIT", "", "must be a number greater than 0"],
  ["TENANCY_START_TIMEOUT", "-1", "must be a number of seconds greater than 0"],
  ["TENANCY_QUEUE_TIMEOUT", "-1", "must be a number of seconds, at least 0"],
  ["TENANCY_START_TIMEOUT", "5m", "must be a number of seconds greater than 0"],
  ["TENANCY_WATCH_NODES", "yes", "must be on or off"],
  ["TENANCY_NODE_TIMEOUT", "Infinity", "must be a number of seconds greater than 0"],
  ["TENANCY_LEASE_SECONDS", "abc", "must be a whole number from 2 to 600"],
  ["TENANCY_LEASE_SECONDS", "1", "must be a whole number from 2 to 600"],
  ["TENANCY_PROXY_IMAGE", "no image", "must be an image reference"],
  ["TENANCY_EGRESS_PRIVATE_RANGES", "10.0.0.0/8,10.0.0.1", "must be ranges such as 10.1.0.0/16, separated by commas"],
  ["TENANCY_POD_SERVICE_ACCOUNTS", "a,B", "must be names of ServiceAccounts, separated by commas"],
  ["TENANCY_SECRETS", "none", "must be any or labelled"],
  ["TENANCY_OPERATOR_LISTEN", "nonsense", "must be host:port, such as 127.0.0.1:9090, or off"],
  ["TENANCY_OPERATOR_LISTEN", "127.0.0.1:99999", "must be host:port, such as 127.0.0.1:9090, or off"],
  ["TENANCY_LOG_LEVEL", "loud", "must be debug, info, warn or error"],
] as const) {
  test(`${name}=${value} is refused in one sentence: which variable, what it must be, what it is`, () => {
    assert.is(problemOf({ [name]: value }), `Cannot start the operator: ${name} ${says}, not ${JSON.stringify(value)}`);
  });
}

test("certificates are refused without being shown", () => {
  assert.is(
    problemOf({ TENANCY_EGRESS_AUTHORITIES: "certs.pem" }),
    "Cannot start the operator: TENANCY_EGRESS_AUTHORITIES must be certificates in PEM",
  );
});

const sink = { TENANCY_SINK: "https://sink.test/?key=s3cret", TENANCY_SINK_FOLDER: "/sink" };

test("a sink gets what the operator tells by default, from a folder of the program", () => {
  const read = operatorConfig(sink).sink;
  assert.equal(
    [...(read?.types ?? [])],
    ["usage", "claim.active", "claim.released", "claim.error", "checkpoint.failed"],
  );
  assert.equal([read?.folder, read?.source, read?.batch], ["/sink/operator", "/namespaces/tenancy", 100]);
  assert.is(operatorConfig({ ...sink, TENANCY_SINK_EVENTS: "audit" }).sink, undefined);
});

for (const [env, says] of [
  [{ TENANCY_SINK: "https://sink.test" }, "TENANCY_SINK needs TENANCY_SINK_FOLDER"],
  [{ TENANCY_SINK_SECRET: `whsec_${"a".repeat(40)}` }, "TENANCY_SINK_SECRET has no effect without TENANCY_SINK"],
  [{ ...sink, TENANCY_SINK: "ftp://s3cret" }, "TENANCY_SINK must be an address of http or https"],
  [{ ...sink, TENANCY_SINK: "https://u:s3cret@sink.test" }, "TENANCY_SINK must be an address of http or https"],
  [{ ...sink, TENANCY_SINK_SECRET: "s3cret" }, "TENANCY_SINK_SECRET must be whsec_ and base64 of 24 to 64 bytes"],
  [{ ...sink, TENANCY_SINK_TOKEN: "s3 cret" }, "TENANCY_SINK_TOKEN must be printable ASCII"],
  [{ ...sink, TENANCY_SINK_EVENTS: "usage,claims" }, "TENANCY_SINK_EVENTS must be a list of usage, claim.active"],
  [{ ...sink, TENANCY_SINK_FOLDER: "sink" }, "TENANCY_SINK_FOLDER must be the absolute path of a folder"],
] as const) {
  test(`a sink with a wrong setting is refused, without its secrets: ${says}`, () => {
    const problem = problemOf(env) ?? "";
    assert.match(problem, says);
    assert.not.match(problem, "s3");
  });
}

test("every problem is told at once", () => {
  assert.is(
    problemOf({ TENANCY_NAMESPACE: "X", TENANCY_LOG_LEVEL: "loud" }),
    'Cannot start the operator: TENANCY_NAMESPACE must be the name of a namespace: at most 63 lower-case letters, digits and dashes, not "X"; TENANCY_LOG_LEVEL must be debug, info, warn or error, not "loud"',
  );
});

test("builds have a registry, and a namespace that is not the tenants'", () => {
  assert.is(operatorConfig({}).builds, undefined);
  const builds = operatorConfig({ TENANCY_REGISTRY: "10.0.0.1:5000/built" }).builds;
  assert.is(builds?.namespace, "tenancy-builds");
  assert.is(builds?.contextLimitBytes, 256 * 1024 * 1024);
  assert.throws(() => operatorConfig({ TENANCY_REGISTRY: "https://registry" }), /TENANCY_REGISTRY/);
  const same = { TENANCY_REGISTRY: "r/built", TENANCY_BUILD_NAMESPACE: "a", TENANCY_NAMESPACE: "a" };
  assert.throws(() => operatorConfig(same), /TENANCY_BUILD_NAMESPACE must be another/);
});

test.run();

function problemOf(env: Record<string, string>): string {
  try {
    operatorConfig(env);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("accepted");
}
