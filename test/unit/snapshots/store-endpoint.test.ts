import { generateKeyPairSync } from "node:crypto";
import type { Agent } from "node:https";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { KubernetesObject, Pod, Secret } from "../../../crds/kubernetes.ts";
import type { Resource } from "../../../crds/resource.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createApiServerEndpoint, createDirectEndpoint } from "../../../crds/snapshots/store-endpoint.ts";
import { certificate } from "../../../scripts/cluster/pki/certificate.ts";
import { errorOf } from "../../error-of.ts";

const { signal } = new AbortController();
interface Context {
  now: number;
  clock: Clock;
  helper: Pod;
  secret: Secret;
  /** Gives the Secret for names. */
  names: () => Secret;
  /** Whether the Secret for all may not be read. */
  isForbidden: boolean;
  gets: number;
  client: ClusterClient;
}

const test = suite<Context>("where the snapshots server is");

const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const issuer = { commonName: "tenancy-snapshots", privateKey };
const [one, another] = await Promise.all(
  [1, 2].map(() => certificate({ commonName: "tenancy-snapshots", purpose: "server", publicKey, issuer })),
);

const encoded = (text = ""): string => Buffer.from(text).toString("base64");
const common = { apiVersion: "v1", kind: "Pod" } as const;

function helperAt(podIP: string): Pod {
  const containerStatuses = [{ state: { running: {} } }];
  return { ...common, metadata: { name: "tenancy-snapshots" }, status: { podIP, containerStatuses } } as unknown as Pod;
}

test.before.each((context) => {
  Object.assign(context, { now: 0, gets: 0, helper: helperAt("10.0.0.1") });
  context.clock = { now: () => context.now, after: () => () => undefined };
  const data = { "tls.crt": encoded(one), "tls.key": encoded("a key"), token: encoded("a token\n") };
  context.secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "tenancy-snapshots" }, data };
  const get = async (
    { plural }: Resource<KubernetesObject>,
    { namespace, name }: { namespace: string; name: string },
  ) => {
    assert.is(namespace, "ns");
    if (name === "tenancy-snapshots-names") return context.names();
    assert.is(name, "tenancy-snapshots");
    if (plural === "secrets" && context.isForbidden) throw forbidden();
    context.gets += 1;
    return plural === "pods" ? context.helper : context.secret;
  };
  context.client = { get } as unknown as ClusterClient;
});

function forbidden(): ApiError {
  return new ApiError("secrets is forbidden", { status: 403, reason: "Forbidden" });
}

test("directly, it is the helper pod's address with its certificate and token, looked up again after a while", async (context) => {
  const { client, clock } = context;
  const find = createDirectEndpoint({ client, namespace: "ns", clock });
  const { secure, options, token, prefix } = await find(signal);
  assert.equal([secure, options.host, options.port, options.servername], [true, "10.0.0.1", 8443, "tenancy-snapshots"]);
  assert.equal([token, prefix], ["a token", undefined]);
  assert.ok((options.agent as Agent).maxSockets < 1024, "no one client has all connections that the helper takes");
  context.helper = helperAt("10.0.0.2");
  context.now = 4999;
  assert.is((await find(signal)).options.host, "10.0.0.1");
  assert.is(context.gets, 2);
  context.now = 5000;
  const again = await find(signal);
  assert.is(again.options.host, "10.0.0.2");
  assert.is(again.options.agent, options.agent);
  context.secret = { ...context.secret, data: { ...context.secret.data, "tls.crt": encoded(another) } };
  context.now = 10_000;
  assert.is.not((await find(signal)).options.agent, options.agent);
});

test("a helper that does not run, and a Secret without content, are failures that pass", async (context) => {
  const { client, clock } = context;
  const find = createDirectEndpoint({ client, namespace: "ns", clock });
  const running = context.helper;
  const deleted = { ...running, metadata: { ...running.metadata, deletionTimestamp: "2026-11-22T00:00:00Z" } };
  for (const helper of [{ ...running, status: {} }, deleted] as Pod[]) {
    context.helper = helper;
    const error = await errorOf(find(signal));
    assert.ok(error instanceof StoreError && error.isTransient && /does not run/.test(error.message), String(error));
  }
  context.helper = running;
  const { secret } = context;
  context.secret = { ...secret, data: {} };
  assert.match(String(await errorOf(find(signal))), /the Secret tenancy-snapshots is empty/);
  context.secret = secret;
  assert.is((await find(signal)).options.host, "10.0.0.1");
});

test("whoever asks for names alone reads the Secret for names", async (context) => {
  const { client, clock, secret } = context;
  const name = "tenancy-snapshots-names";
  const find = createDirectEndpoint({ client, namespace: "ns", clock, rights: "names" });
  const next = async () => {
    context.now += 5000;
    return await find(signal);
  };
  context.isForbidden = true;
  const data = { "tls.crt": encoded(one), token: encoded("for names"), "token.before": encoded("the former") };
  context.names = () => ({ ...secret, metadata: { name }, data });
  assert.is((await next()).token, "for names,the former");
  // The operator has not filled it yet.
  context.names = () => ({ ...secret, metadata: { name }, data: {} });
  const error = await errorOf(next());
  assert.ok(error instanceof StoreError && error.isTransient, String(error));
  assert.match(error.message, /the Secret tenancy-snapshots-names is empty/);
  // With neither Role; and with the Role of the version before, which names the other.
  context.names = () => {
    throw forbidden();
  };
  assert.match(String(await errorOf(next())), /forbidden/);
  context.isForbidden = false;
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
