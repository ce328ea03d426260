import { generateKeyPairSync } from "node:crypto";
import type { Agent } from "node:https";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createApiServerEndpoint, createDirectEndpoint } from "../../../crds/snapshots/store-endpoint.ts";
import { certificate } from "../../../scripts/cluster/pki/certificate.ts";
import { errorOf } from "../../error-of.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";
import { runningHelper, storeSecret } from "./helper-objects.ts";

const { signal } = new AbortController();
interface Context {
  clock: ManualClock;
  api: MemoryApi;
  client: ClusterClient;
}

const test = suite<Context>("where the snapshots server is");

const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const issuer = { commonName: "tenancy-snapshots", privateKey };
const [one = "", another = ""] = await Promise.all(
  [1, 2].map(() => certificate({ commonName: "tenancy-snapshots", purpose: "server", publicKey, issuer })),
);

const NAMES = "tenancy-snapshots-names";
const texts = { "tls.crt": one, "tls.key": "a key", token: "a token\n" };

test.before.each((context) => {
  const api = new MemoryApi("ns");
  Object.assign(context, { api, client: api.client, clock: manualClock() });
  api.add(pods, runningHelper());
  api.add(secrets, storeSecret(texts));
});

function forbid(api: MemoryApi, ...names: string[]): void {
  api.onEvery(
    "get",
    ({ name }) => {
      if (names.includes(name)) throw new ApiError("secrets is forbidden", { status: 403, reason: "Forbidden" });
    },
    secrets,
  );
}

test("directly, it is the helper pod's address with its certificate and token, looked up again after a while", async ({
  api,
  client,
  clock,
}) => {
  const find = createDirectEndpoint({ client, namespace: "ns", clock });
  const { secure, options, token, prefix } = await find(signal);
  assert.equal([secure, options.host, options.port, options.servername], [true, "10.0.0.1", 8443, "tenancy-snapshots"]);
  assert.equal([token, prefix], ["a token", undefined]);
  assert.ok((options.agent as Agent).maxSockets < 1024, "no one client has all connections that the helper takes");
  const since = clock.now();
  api.add(pods, runningHelper("10.0.0.2"));
  clock.set(since + 4999);
  assert.is((await find(signal)).options.host, "10.0.0.1");
  assert.is(api.calls.length, 2);
  clock.set(since + 5000);
  const again = await find(signal);
  assert.is(again.options.host, "10.0.0.2");
  assert.is(again.options.agent, options.agent);
  api.add(secrets, storeSecret({ ...texts, "tls.crt": another }));
  clock.set(since + 10_000);
  assert.is.not((await find(signal)).options.agent, options.agent);
});

test("a helper that does not run, and a Secret without content, are failures that pass", async ({
  api,
  client,
  clock,
}) => {
  const find = createDirectEndpoint({ client, namespace: "ns", clock });
  const running = runningHelper();
  const deleted = { ...running, metadata: { ...running.metadata, deletionTimestamp: "2026-11-22T00:00:00Z" } };
  for (const helper of [{ ...running, status: {} }, deleted]) {
    api.add(pods, helper);
    const error = await errorOf(find(signal));
    assert.ok(error instanceof StoreError && error.isTransient && /does not run/.test(error.message), String(error));
  }
  api.add(pods, running);
  api.add(secrets, storeSecret({}));
  assert.match(String(await errorOf(find(signal))), /the Secret tenancy-snapshots is empty/);
  api.add(secrets, storeSecret(texts));
  assert.is((await find(signal)).options.host, "10.0.0.1");
});

test("whoever asks for names alone reads the Secret for names", async ({ api, client, clock }) => {
  const find = createDirectEndpoint({ client, namespace: "ns", clock, rights: "names" });
  const next = async () => {
    clock.set(clock.now() + 5000);
    return await find(signal);
  };
  forbid(api, "tenancy-snapshots");
  api.add(secrets, storeSecret({ "tls.crt": one, token: "for names", "token.before": "the former" }, NAMES));
  assert.is((await next()).token, "for names,the former");
  // The operator has not filled it yet.
  api.add(secrets, storeSecret({}, NAMES));
  const error = await errorOf(next());
  assert.ok(error instanceof StoreError && error.isTransient, String(error));
  assert.match(error.message, /the Secret tenancy-snapshots-names is empty/);
  // With neither Role; and with the Role of the version before, which names the other.
  forbid(api, "tenancy-snapshots", NAMES);
  assert.match(String(await errorOf(next())), /forbidden/);
  forbid(api, NAMES);
  assert.is((await next()).token, "a token");
});

test("through the API server, it is the pod's proxy, as whoever the configuration is", async ({ client, clock }) => {
  const config = { server: "https://api.example:6443/behind/", token: "of an account", caData: one };
  const find = createApiServerEndpoint({ client, namespace: "ns", clock, config });
  const { secure, options, prefix, headers, token } = await find(signal);
  assert.equal([secure, options.host, options.port, token], [true, "api.example", "6443", "a token"]);
  assert.is(prefix, "/behind/api/v1/namespaces/ns/pods/https:tenancy-snapshots:8443/proxy");
  assert.equal(headers, { authorization: "Bearer of an account" });
});

test.run();
