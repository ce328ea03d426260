// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Secret } from "../../../crds/kubernetes.ts";
import { type KeyRecord, readKeySecret, secretOfKey } from "../../../edge/access/key-record.ts";

const test = suite("a key as a Secret");

const record: KeyRecord = {
  ...{ id: "0123456789abcdef", name: "Müller's laptop 😀", role: "tenant", tenants: ["alice", "team-*"] },
  ...{ workloads: ["web", "api-*"], requestsPerSecond: 5 },
  ...{ createdAt: "2026-01-01T00:00:00Z", expiresAt: "2026-02-01T00:00:00Z", sha256: "a".repeat(64) },
};

function secretOf(key: object = {}, change: Partial<Secret> & { name?: string } = {}): Secret {
  const { name, ...rest } = change;
  const secret = secretOfKey({ ...record, ...key }, { namespace: "keys" });
  const metadata = { ...secret.metadata, ...rest.metadata, creationTimestamp: record.createdAt };
  return { ...secret, ...rest, metadata: { ...metadata, ...(name !== undefined && { name }) } };
}

const ofJson = (text: string): Partial<Secret> => ({ data: { "key.json": Buffer.from(text).toString("base64") } });

test("readKeySecret returns what secretOfKey wrote", () => {
  const { id, name, createdAt, sha256 } = record;
  const least = { id, name, createdAt, sha256 };
  assert.equal(readKeySecret(secretOf()), record);
  const without = { tenants: undefined, workloads: undefined, requestsPerSecond: undefined, expiresAt: undefined };
  for (const role of ["admin", "platform", "reader"])
    assert.equal(readKeySecret(secretOf({ ...without, role })), { ...least, role });
  assert.equal(readKeySecret(secretOf({ role: "reader" })), { ...record, role: "reader" });
});

test("readKeySecret says which rule a Secret breaks, and nothing of its content", () => {
  const problem = (secret: Secret): string => {
    const read = readKeySecret(secret);
    if (typeof read !== "string") throw new Error("it is a key");
    assert.not.match(read, /Müller|hidden|alice|aaaa/);
    return read;
  };
  const metadata = { name: "key-0123456789abcdef" };
  for (const name of ["key-0123", "0123456789abcdef", "key-0123456789ABCDEF", "key-0123456789abcdef0"])
    assert.match(problem(secretOf({}, { name })), "its name must be");
  assert.match(problem({ ...secretOf(), metadata }), "label tenancy.dev/use=key");
  assert.match(problem(secretOf({}, { metadata: { ...metadata, labels: { "tenancy.dev/use": "claim" } } })), "label");
  assert.match(problem(secretOf({}, { type: "Opaque" })), "its type must be tenancy.dev/key");
  assert.match(problem(secretOf({}, { metadata: { ...metadata, deletionTimestamp: record.createdAt } })), "deleted");
  assert.match(problem(secretOf({}, { data: {} })), "one entry, key.json");
  assert.match(problem(secretOf({}, { data: { ...secretOf().data, more: "" } })), "one entry, key.json");
  assert.match(problem(secretOf({}, ofJson("{hidden"))), "must be JSON");
  assert.match(problem(secretOf({}, ofJson("[".repeat(1000)))), "must be JSON");
  assert.match(problem(secretOf({}, ofJson(" ".repeat(70_000)))), "at most 65536 bytes");
  for (const json of ["null", '"hidden"', "[]", "{}"]) assert.match(problem(secretOf({}, ofJson(json))), "key.json");
  for (const [key, reason] of [
    [{ hidden: 1 }, "has an unknown field"],
    [{ sha256: "a".repeat(63) }, "sha256: must be 64"],
    [{ sha256: 1 }, "sha256: must be string"],
    [{ name: "" }, "name: must be 1 to 63"],
    [{ name: "a".repeat(64) }, "name: must be 1 to 63"],
    [{ name: "hidden\n" }, "name: must be 1 to 63"],
    [{ role: "hidden" }, "role: must be one of admin"],
    [{ role: undefined }, "role: must be"],
    [{ tenants: undefined }, "tenants: required for the role tenant"],
    [{ role: "admin" }, "tenants: not allowed for the role admin"],
    [{ role: "platform" }, "tenants: not allowed for the role platform"],
    [{ role: "admin", tenants: undefined }, "workloads: not allowed for the role admin"],
    [{ role: "platform", tenants: undefined }, "workloads: not allowed for the role platform"],
    [{ workloads: [] }, "workloads: must have 1 to 100"],
    [{ workloads: "web" }, "workloads: must be Array"],
    ...["*", "", "-a", "a-", "A", "a_b", "a**", "*a", "a*b", "a\n", "a".repeat(64), `${"a".repeat(64)}*`].map(
      (one) => [{ workloads: ["web", one] }, "workloads.1: must be the name of a workload"] as const,
    ),
    [{ requestsPerSecond: 0 }, "requestsPerSecond: must be at least 1"],
    [{ requestsPerSecond: 1.5 }, "requestsPerSecond: must be a whole number"],
    [{ requestsPerSecond: 1_000_001 }, "requestsPerSecond: must be at most 1000000"],
    [{ requestsPerSecond: "5" }, "requestsPerSecond: must be number"],
    [{ role: "reader", tenants: [] }, "tenants: must have 1 to 100"],
    [{ tenants: Array.from({ length: 101 }, () => "alice") }, "tenants: must have 1 to 100"],
    [{ tenants: "alice" }, "tenants: must be Array"],
    ...["*", "", "-a", "a-", "a b", "a**", "*a", "a*b", "a\n", "a".repeat(64), `${"a".repeat(64)}*`].map(
      (one) => [{ tenants: ["alice", one] }, "tenants.1: must be a tenant id"] as const,
    ),
    ...["hidden", "2026-02-01", "1", "2026-02-01T00:00:00", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z"].map(
      (expiresAt) => [{ expiresAt }, "expiresAt: must be a time"] as const,
    ),
  ] as const)
    assert.match(problem(secretOf(key)), reason);
});

test.run();
