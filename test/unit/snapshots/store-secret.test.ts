import { X509Certificate } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import { ensureStoreSecret } from "../../../operator/snapshots/store-secret.ts";

const DAY_MS = 24 * 3_600_000;
const HOUR_MS = 3_600_000;
const NOW = Date.parse("2026-11-23T00:00:00Z");

interface Context {
  secret: Secret | undefined;
  /** The one for names. */
  names: Secret | undefined;
  /** Whether that one may be neither read nor made. */
  isForbidden: boolean;
  /** Of the first. */
  writes: string[];
  ensure(nowMs: number): Promise<number>;
}

const test = suite<Context>("ensureStoreSecret");

test.before.each((context) => {
  Object.assign(context, {
    writes: [],
    secret: secretOf({}),
    names: secretOf({}, "tenancy-snapshots-names"),
    isForbidden: false,
  });
  const write = (verb: string) => async (_: unknown, secret: Secret) => {
    if (secret.metadata.name === "tenancy-snapshots-names") {
      checkAllowed();
      if (verb === "replace") assert.is(secret.metadata.resourceVersion, context.names?.metadata.resourceVersion);
      context.names = secret;
      return secret;
    }
    context.writes.push(verb);
    if (verb === "replace") assert.is(secret.metadata.resourceVersion, context.secret?.metadata.resourceVersion);
    const resourceVersion = String(context.writes.length);
    context.secret = { ...secret, metadata: { ...secret.metadata, resourceVersion } };
    return context.secret;
  };
  const client = {
    async get(_: unknown, { name }: { name: string }) {
      if (name === "tenancy-snapshots-names") {
        checkAllowed();
        if (context.names !== undefined) return context.names;
        throw new ApiError("not found", { status: 404, reason: "NotFound" });
      }
      if (context.secret === undefined) throw new ApiError("not found", { status: 404, reason: "NotFound" });
      return context.secret;
    },
    create: write("create"),
    replace: write("replace"),
  } as unknown as ClusterClient;
  context.ensure = (nowMs) => ensureStoreSecret({ client, namespace: "ns", nowMs });

  function checkAllowed(): void {
    if (context.isForbidden) throw new ApiError("secrets is forbidden", { status: 403, reason: "Forbidden" });
  }
});

function secretOf(data: Record<string, string>, name = "tenancy-snapshots"): Secret {
  return { apiVersion: "v1", kind: "Secret", metadata: { name, resourceVersion: "0" }, data };
}

function textOf(secret: Secret | undefined, name: string): string {
  return Buffer.from(secret?.data?.[name] ?? "", "base64").toString("utf8");
}

test("tells of the certificate that is there, also where it is due and cannot be renewed", async () => {
  let secret = secretOf({});
  let refuses = false;
  const client = {
    get: async (_: unknown, { name }: { name: string }) => (name === "tenancy-snapshots" ? secret : secretOf({}, name)),
    async replace(_: unknown, changed: Secret) {
      if (refuses) throw new ApiError("secrets is forbidden", { status: 403, reason: "Forbidden" });
      if (changed.metadata.name === "tenancy-snapshots") secret = changed;
      return changed;
    },
  } as unknown as ClusterClient;
  const day = 24 * 3_600_000;
  const start = Date.UTC(2026, 0, 1);
  const told: string[] = [];
  const onCertificate = (times: { endsAt: Date; renewAt: Date }) =>
    void told.push(`${times.endsAt.toISOString()} ${times.renewAt.toISOString()}`);
  await ensureStoreSecret({ client, namespace: "ns", nowMs: start, onCertificate });
  assert.equal(told.splice(0), ["2027-01-01T00:00:00.000Z 2026-12-02T00:00:00.000Z"]);
  refuses = true;
  const late = ensureStoreSecret({ client, namespace: "ns", nowMs: start + 350 * day, onCertificate });
  assert.match(String(await late.catch(String)), "forbidden");
  assert.equal(told, ["2027-01-01T00:00:00.000Z 2026-12-02T00:00:00.000Z"]);
});

test("fills an empty Secret, and makes one that is missing", async (context) => {
  for (const before of [secretOf({}), undefined]) {
    Object.assign(context, { secret: before, writes: [] });
    await context.ensure(NOW);
    assert.equal(context.writes, [before === undefined ? "create" : "replace"]);
    const { secret } = context;
    assert.equal(Object.keys(secret?.data ?? {}).sort(), ["names-token", "tls.crt", "tls.key", "token"]);
    assert.match(textOf(secret, "token"), /^[0-9a-f]{64}$/);
    const certificate = new X509Certificate(textOf(secret, "tls.crt"));
    assert.is(certificate.checkHost("tenancy-snapshots"), "tenancy-snapshots");
    assert.ok(certificate.verify(certificate.publicKey));
    assert.is(Date.parse(certificate.validTo), NOW + 365 * DAY_MS);
    await context.ensure(NOW + DAY_MS);
    assert.is(context.writes.length, 1);
  }
});

test("renews a month before the end, and keeps the former ones for an hour", async (context) => {
  await context.ensure(NOW);
  const first = context.secret;
  const due = NOW + 335 * DAY_MS;
  assert.is(await context.ensure(due - 10_000), 10_000);
  assert.is(context.writes.length, 1);
  await context.ensure(due);
  const second = context.secret;
  assert.is.not(textOf(second, "tls.crt"), textOf(first, "tls.crt"));
  assert.is.not(textOf(second, "token"), textOf(first, "token"));
  assert.is(textOf(second, "tls.crt.before"), textOf(first, "tls.crt"));
  assert.is(textOf(second, "token.before"), textOf(first, "token"));
  assert.is(textOf(second, "tls.key.before"), "");
  assert.is(await context.ensure(due + HOUR_MS - 10_000), 10_000);
  assert.is(context.secret, second);
  await context.ensure(due + HOUR_MS);
  assert.equal(Object.keys(context.secret?.data ?? {}).sort(), ["names-token", "tls.crt", "tls.key", "token"]);
  assert.is(textOf(context.secret, "token"), textOf(second, "token"));
});

test("looks at it each minute, since nobody says when a person has emptied it", async (context) => {
  for (const at of [NOW, NOW + DAY_MS, NOW + 335 * DAY_MS, NOW + 335 * DAY_MS + HOUR_MS / 2])
    assert.is(await context.ensure(at), 60_000);
});

test("copies to the Secret for names what these take, and nothing that opens archives", async (context) => {
  for (const before of [context.names, undefined]) {
    Object.assign(context, { secret: secretOf({}), names: before });
    await context.ensure(NOW);
    const { secret, names } = context;
    assert.equal(Object.keys(names?.data ?? {}).sort(), ["tls.crt", "token"]);
    assert.is(textOf(names, "tls.crt"), textOf(secret, "tls.crt"));
    assert.match(textOf(names, "token"), /^[0-9a-f]{64}$/);
    assert.is(textOf(names, "token"), textOf(secret, "names-token"));
    assert.is.not(textOf(names, "token"), textOf(secret, "token"));
    await context.ensure(NOW + HOUR_MS);
    assert.is(context.names, names);
  }
  const first = textOf(context.names, "token");
  const due = NOW + 336 * DAY_MS;
  await context.ensure(due);
  assert.equal(Object.keys(context.names?.data ?? {}).sort(), ["tls.crt", "tls.crt.before", "token", "token.before"]);
  assert.is(textOf(context.names, "token.before"), first);
  assert.is(textOf(context.secret, "names-token.before"), first);
  assert.is.not(textOf(context.names, "token"), first);
  await context.ensure(due + HOUR_MS);
  assert.equal(Object.keys(context.names?.data ?? {}).sort(), ["tls.crt", "token"]);
  // Whoever empties it has it filled again.
  context.names = secretOf({}, "tenancy-snapshots-names");
  await context.ensure(due + HOUR_MS);
  assert.is(textOf(context.names, "token"), textOf(context.secret, "names-token"));
});

test("what an earlier version has filled gets a token for names, and keeps all else", async (context) => {
  await context.ensure(NOW);
  const { "names-token": _, ...before } = context.secret?.data ?? {};
  context.secret = secretOf(before);
  await context.ensure(NOW + DAY_MS);
  const { "names-token": added, ...after } = context.secret?.data ?? {};
  assert.equal(after, before);
  assert.is(context.names?.data?.token, added);
  // In the hour of a renewal too.
  await context.ensure(NOW + 336 * DAY_MS);
  const { "names-token": __, "names-token.before": ___, ...renewed } = context.secret?.data ?? {};
  context.secret = secretOf(renewed);
  await context.ensure(NOW + 336 * DAY_MS + HOUR_MS / 2);
  assert.ok(context.secret?.data?.["token.before"]);
  assert.is(context.names?.data?.token, context.secret?.data?.["names-token"]);
});

test("with the manifests of an earlier version the helper pod's Secret is filled all the same", async (context) => {
  context.isForbidden = true;
  await context.ensure(NOW);
  assert.ok(textOf(context.secret, "token"));
  context.isForbidden = false;
  await context.ensure(NOW + HOUR_MS);
  assert.is(textOf(context.names, "token"), textOf(context.secret, "names-token"));
});

test("what a person has emptied or broken is made anew, and nothing of before counts on", async (context) => {
  await context.ensure(NOW);
  const whole = context.secret as Secret;
  await context.ensure(NOW + 340 * DAY_MS);
  const other = context.secret as Secret;
  const { "tls.key": key = "" } = other.data ?? {};
  for (const data of [
    {},
    { ...whole.data, token: "" },
    { ...whole.data, "tls.key": key },
    { ...whole.data, "tls.crt": "eA==" },
  ]) {
    Object.assign(context, { secret: secretOf(data), writes: [] });
    await context.ensure(NOW + DAY_MS);
    assert.equal(context.writes, ["replace"]);
    assert.equal(Object.keys(context.secret?.data ?? {}).sort(), ["names-token", "tls.crt", "tls.key", "token"]);
    assert.is.not(textOf(context.secret, "token"), textOf(whole, "token"));
  }
});

test.run();
