import { X509Certificate } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { ensureStoreSecret } from "../../../operator/snapshots/store-secret.ts";
import { type Call, MemoryApi } from "../memory-api.ts";
import { storeSecret } from "./helper-objects.ts";

const DAY_MS = 24 * 3_600_000;
const HOUR_MS = 3_600_000;
const NOW = Date.parse("2026-11-23T00:00:00Z");

const NAMES = "tenancy-snapshots-names";

const test = suite("ensureStoreSecret");

/** A cluster with the two Secrets, which are empty, and what is written to them. */
function cluster() {
  const api = new MemoryApi();
  const found = (name: string) => (api.has(secrets, name) ? api.read(secrets, name) : undefined);
  const put = (name: string, secret: Secret | undefined) => {
    if (secret !== undefined) api.add(secrets, secret);
    else if (api.has(secrets, name)) api.remove(secrets, name);
  };
  put(SNAPSHOTS_NAME, storeSecret({}));
  put(NAMES, storeSecret({}, NAMES));
  return {
    api,
    ensure: (nowMs: number) => ensureStoreSecret({ cluster: api.cluster, namespace: "n", nowMs }),
    get secret() {
      return found(SNAPSHOTS_NAME);
    },
    set secret(secret) {
      put(SNAPSHOTS_NAME, secret);
      api.calls.length = 0;
    },
    /** The one for names. */
    get names() {
      return found(NAMES);
    },
    set names(secret) {
      put(NAMES, secret);
    },
    /** Verbs, for the first one. */
    writes: () => api.calls.flatMap(({ verb, name }) => (name === SNAPSHOTS_NAME && verb !== "get" ? [verb] : [])),
  };
}

const forbidden = new ApiError("secrets is forbidden", { status: 403, reason: "Forbidden" });

function textOf(secret: Secret | undefined, name: string): string {
  return Buffer.from(secret?.data?.[name] ?? "", "base64").toString("utf8");
}

test("tells of the certificate that is there, also where it is due and cannot be renewed", async () => {
  const { api } = cluster();
  const day = 24 * 3_600_000;
  const start = Date.UTC(2026, 0, 1);
  const told: string[] = [];
  const onCertificate = (times: { endsAt: Date; renewAt: Date }) =>
    void told.push(`${times.endsAt.toISOString()} ${times.renewAt.toISOString()}`);
  await ensureStoreSecret({ cluster: api.cluster, namespace: "n", nowMs: start, onCertificate });
  assert.equal(told.splice(0), ["2027-01-01T00:00:00.000Z 2026-12-02T00:00:00.000Z"]);
  api.onEvery("replace", forbidden, secrets);
  const late = ensureStoreSecret({ cluster: api.cluster, namespace: "n", nowMs: start + 350 * day, onCertificate });
  assert.match(String(await late.catch(String)), "forbidden");
  assert.equal(told, ["2027-01-01T00:00:00.000Z 2026-12-02T00:00:00.000Z"]);
});

test("fills an empty Secret, and makes one that is missing", async () => {
  const context = cluster();
  for (const before of [storeSecret({}), undefined]) {
    context.secret = before;
    await context.ensure(NOW);
    assert.equal(context.writes(), [before === undefined ? "create" : "replace"]);
    const { secret } = context;
    assert.equal(Object.keys(secret?.data ?? {}).sort(), ["names-token", "tls.crt", "tls.key", "token"]);
    assert.match(textOf(secret, "token"), /^[0-9a-f]{64}$/);
    const certificate = new X509Certificate(textOf(secret, "tls.crt"));
    assert.is(certificate.checkHost("tenancy-snapshots"), "tenancy-snapshots");
    assert.ok(certificate.verify(certificate.publicKey));
    assert.is(Date.parse(certificate.validTo), NOW + 365 * DAY_MS);
    await context.ensure(NOW + DAY_MS);
    assert.is(context.writes().length, 1);
  }
});

test("renews a month before the end, and keeps the former ones for an hour", async () => {
  const context = cluster();
  await context.ensure(NOW);
  const first = context.secret;
  const due = NOW + 335 * DAY_MS;
  assert.is(await context.ensure(due - 10_000), 10_000);
  assert.is(context.writes().length, 1);
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

test("looks at it each minute, since nobody says when a person has emptied it", async () => {
  const context = cluster();
  for (const at of [NOW, NOW + DAY_MS, NOW + 335 * DAY_MS, NOW + 335 * DAY_MS + HOUR_MS / 2])
    assert.is(await context.ensure(at), 60_000);
});

test("copies to the Secret for names what these take, and nothing that opens archives", async () => {
  const context = cluster();
  for (const before of [context.names, undefined]) {
    Object.assign(context, { secret: storeSecret({}), names: before });
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
  context.names = storeSecret({}, NAMES);
  await context.ensure(due + HOUR_MS);
  assert.is(textOf(context.names, "token"), textOf(context.secret, "names-token"));
});

test("what an earlier version has filled gets a token for names, and keeps all else", async () => {
  const context = cluster();
  await context.ensure(NOW);
  const { "names-token": _, ...before } = context.secret?.data ?? {};
  context.secret = { ...storeSecret({}), data: before };
  await context.ensure(NOW + DAY_MS);
  const { "names-token": added, ...after } = context.secret?.data ?? {};
  assert.equal(after, before);
  assert.is(context.names?.data?.token, added);
  // In the hour of a renewal too.
  await context.ensure(NOW + 336 * DAY_MS);
  const { "names-token": __, "names-token.before": ___, ...renewed } = context.secret?.data ?? {};
  context.secret = { ...storeSecret({}), data: renewed };
  await context.ensure(NOW + 336 * DAY_MS + HOUR_MS / 2);
  assert.ok(context.secret?.data?.["token.before"]);
  assert.is(context.names?.data?.token, context.secret?.data?.["names-token"]);
});

test("with the manifests of an earlier version the helper pod's Secret is filled all the same", async () => {
  const context = cluster();
  const isOfNames = ({ name }: Call) => {
    if (name === NAMES) throw forbidden;
  };
  for (const verb of ["get", "create", "replace"] as const) context.api.onEvery(verb, isOfNames, secrets);
  await context.ensure(NOW);
  assert.ok(textOf(context.secret, "token"));
  for (const verb of ["get", "create", "replace"] as const) context.api.onEvery(verb, () => undefined, secrets);
  await context.ensure(NOW + HOUR_MS);
  assert.is(textOf(context.names, "token"), textOf(context.secret, "names-token"));
});

test("what a person has emptied or broken is made anew, and nothing of before counts on", async () => {
  const context = cluster();
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
    context.secret = { ...storeSecret({}), data };
    await context.ensure(NOW + DAY_MS);
    assert.equal(context.writes(), ["replace"]);
    assert.equal(Object.keys(context.secret?.data ?? {}).sort(), ["names-token", "tls.crt", "tls.key", "token"]);
    assert.is.not(textOf(context.secret, "token"), textOf(whole, "token"));
  }
});

test.run();
