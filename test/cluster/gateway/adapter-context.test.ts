import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type ApiError, isConflict } from "../../../crds/client/api-error.ts";
import { leases, secrets } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { type Cluster, createCluster } from "../../../crds/client/cluster.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { holdLease } from "../../../crds/client/hold-lease.ts";
import { triggers } from "../../../crds/kinds.ts";
import { notObserved } from "../../../crds/schema/condition.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { AdapterContext } from "../../../edge/gateway/adapter.ts";
import { type ContextServices, createAdapterContext } from "../../../edge/gateway/adapter-context.ts";
import { createSecretReaders } from "../../../edge/gateway/triggers/secret-reader.ts";
import { createTriggerState } from "../../../edge/gateway/triggers/trigger-state.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { startControllerManager } from "../controller-manager.ts";
import { cutLeases } from "../cut-leases.ts";
import { exists, NAMESPACE } from "../tenancy.ts";
import { type GatewayEnvironment, startGatewayEnvironment } from "./gateway-environment.ts";

const test = suite("what adapters work with, on a real API server");
let environment: GatewayEnvironment;

test.before(async () => {
  environment = await startGatewayEnvironment("gateway-context");
});

const failure = async (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

function clusterOf(client: ClusterClient): Cluster {
  return createCluster({ client, namespace: NAMESPACE, fieldManager: "test" });
}

function stateOf(trigger: Trigger) {
  return createTriggerState({ cluster: clusterOf(environment.tenancy.client), trigger });
}

/** With the services that Leases need alone. */
function contextOf(trigger: Trigger, signal: AbortSignal): AdapterContext {
  const { client } = environment.tenancy;
  const claims = { cluster: clusterOf(client), namespace: NAMESPACE, clock: systemClock };
  const services = { client, claims, instance: "test", leaseMs: 6000, log: silentLog } as unknown as ContextServices;
  const secrets = createSecretReaders({ ...claims, client, policy: "any", log: silentLog })(() => undefined);
  const shared = { trigger, services, number: 1, secrets, signal };
  return createAdapterContext({ ...shared, report: () => undefined });
}

test("a state is written whole, and only where nobody else wrote it", async () => {
  const trigger = await environment.createTrigger("state", { config: { path: "/hooks/state" } });
  const [mine, other] = [stateOf(trigger), stateOf(trigger)];
  assert.equal(await mine.read(), {});
  assert.equal(await other.read(), {});
  await mine.write({ a: 1, nested: { b: 2, c: 3 } });
  assert.equal((await environment.statusOf("state")).state, { a: 1, nested: { b: 2, c: 3 } });
  const lost = await failure(other.write({ a: 2 }));
  assert.ok(isConflict(lost), String(lost));
  await mine.write({ nested: { b: null, d: [] } });
  assert.equal(await other.read(), { nested: { b: null, d: [] } }, "what is not in it is gone");
  await other.write({ a: 3 });
  assert.is(((await failure(mine.write({}))) as ApiError).status, 409);
});

test("another field of the status is no conflict", async () => {
  const trigger = await environment.createTrigger("fields", { config: { path: "/hooks/fields" } });
  const state = stateOf(trigger);
  await state.read();
  const body = { status: { phase: "Error", detail: "shown by another" } };
  const ref = { namespace: NAMESPACE, name: "fields" };
  await environment.tenancy.client.patch(triggers, ref, { type: "merge", subresource: "status", body });
  await state.write({ a: 1 });
  await environment.editTrigger("fields", { tenant: { static: "other" } });
  await state.write({ a: 2 });
  assert.equal(await environment.statusOf("fields"), {
    ...{ phase: "Error", detail: "shown by another", conditions: notObserved },
    state: { a: 2 },
  });
});

test("a state that is too large is refused, and one of another trigger of the name is left alone", async () => {
  const trigger = await environment.createTrigger("bounds", { config: { path: "/hooks/bounds" } });
  const state = stateOf(trigger);
  const fill = `${"ä".repeat(32 * 1024 - 6)}x`;
  await state.write({ fill });
  assert.match(String(await failure(state.write({ fill: `${fill}x` }))), /65537 bytes of 65536/);
  await environment.deleteTrigger("bounds");
  await environment.createTrigger("bounds", { config: { path: "/hooks/bounds" } });
  assert.is(((await failure(state.write({ a: 1 }))) as ApiError).status, 409);
  assert.is(((await failure(state.read())) as ApiError).status, 409);
  assert.equal(await environment.statusOf("bounds"), { conditions: notObserved });
});

test("a Lease has one holder; work that ends, a clean stop and a death hand it on", async () => {
  const { client } = environment.tenancy;
  const log: string[] = [];
  let cut = false;
  const cutOff = cutLeases(client, () => cut);
  const hold = (name: string, options: { client?: ClusterClient; until?: Promise<void>; leaseMs?: number } = {}) => {
    const stop = new AbortController();
    const { until = new Promise<void>(() => undefined) } = options;
    const done = holdLease({
      client: options.client ?? client,
      namespace: NAMESPACE,
      leaseName: "one",
      identity: name,
      leaseMs: options.leaseMs ?? 6000,
      log: silentLog,
      signal: stop.signal,
      async hold({ signal }) {
        log.push(`+${name}`);
        const over = new Promise<void>((resolve) => {
          for (const one of [signal, stop.signal]) one.addEventListener("abort", () => resolve());
        });
        await Promise.race([until, over]);
        log.push(`-${name}`);
      },
    });
    return { stop: () => stop.abort(), done };
  };
  let finish: () => void = () => undefined;
  // A lease that outlives the test: only a hand-over lets the next one have it.
  const first = hold("first", {
    until: new Promise((resolve) => {
      finish = resolve;
    }),
    leaseMs: 600_000,
  });
  await environment.tenancy.until("the first holds", () => log.length === 1);
  const second = hold("second", { leaseMs: 600_000 });
  finish();
  await first.done;
  await environment.tenancy.until("the second holds", () => log.length === 3);
  second.stop();
  await second.done;
  assert.is((await client.get(leases, { namespace: NAMESPACE, name: "one" })).spec?.holderIdentity, "");
  const third = hold("third", { client: cutOff });
  await environment.tenancy.until("the third holds", () => log.at(-1) === "+third");
  const fourth = hold("fourth");
  cut = true;
  const from = performance.now();
  await environment.tenancy.until("the fourth holds", () => log.at(-1) === "+fourth");
  console.log(
    `note: a dead holder of a lease of 6 s was followed after ${((performance.now() - from) / 1000).toFixed(1)} s`,
  );
  assert.equal(log, ["+first", "-first", "+second", "-second", "+third", "-third", "+fourth"]);
  for (const one of [third, fourth]) one.stop();
  cut = false;
  await Promise.all([third.done, fourth.done]);
});

test("a Lease goes with the last of the triggers that held it", async () => {
  const { tenancy } = environment;
  const { client } = tenancy;
  const collector = await startControllerManager(tenancy.cluster, { controllers: "garbagecollector" });
  const isThere = () => exists(client, leases, "shared");
  try {
    for (const name of ["earlier", "later"]) {
      const trigger = await environment.createTrigger(name, { config: { path: `/hooks/${name}` } });
      const stop = new AbortController();
      await contextOf(trigger, stop.signal).whileHolding("shared", async () => undefined);
      stop.abort();
    }
    await environment.deleteTrigger("earlier");
    await tenancy.until("one owner left", async () => {
      const { metadata } = await client.get(leases, { namespace: NAMESPACE, name: "shared" });
      return metadata.ownerReferences?.length === 1;
    });
    await environment.deleteTrigger("later");
    await tenancy.until("the Lease gone", async () => !(await isThere()));
  } finally {
    await stopProcess(collector.identity, { name: collector.name });
  }
});

test("work that throws gives the Lease back, and its error goes to whoever waits", async () => {
  const { client } = environment.tenancy;
  const error = new Error("the work failed");
  const shared = { client, namespace: NAMESPACE, leaseName: "two", leaseMs: 600_000, log: silentLog };
  const stop = new AbortController();
  const held = holdLease({ ...shared, identity: "a", signal: stop.signal, hold: () => Promise.reject(error) });
  assert.is(await failure(held), error);
  let isHeld = false;
  await holdLease({
    ...shared,
    identity: "b",
    signal: stop.signal,
    async hold() {
      isHeld = true;
    },
  });
  assert.ok(isHeld);
});

test("a Secret is read once, then followed while anybody reads it", async () => {
  const { client } = environment.tenancy;
  let gets = 0;
  const counting: ClusterClient = {
    ...client,
    get: (...parameters) => {
      gets += 1;
      return client.get(...parameters);
    },
  };
  const open = createSecretReaders({
    client: counting,
    cluster: clusterOf(counting),
    namespace: NAMESPACE,
    policy: "any",
    clock: systemClock,
    log: silentLog,
  });
  const changes: string[] = [];
  const reader = open(() => void changes.push("any"));
  const ref = { name: "followed", key: "k" };
  assert.is(
    ((await failure(reader.read(ref, { onChange: () => void changes.push("k") }))) as Error).message,
    "Secret followed does not exist; create it with the key k",
  );
  await environment.writeSecret("followed", { other: "x" });
  assert.is(
    ((await failure(environment.tenancy.until("it is there", () => failureOrValue()))) as Error | undefined)?.message,
    undefined,
  );
  async function failureOrValue(): Promise<boolean> {
    return ((await failure(reader.read(ref))) as Error).message.includes("has no value under the key k");
  }
  await environment.writeSecret("followed", { other: "x", k: "one" });
  await environment.tenancy.until("it has changed", () => changes.includes("k"));
  // It may have changed before, from a Secret that is not there to one without the key.
  await environment.tenancy.until("its value", async () => (await reader.read(ref).catch(() => "")) === "one");
  await environment.tenancy.until("its watch is open", async () => {
    const known = gets;
    await reader.read(ref);
    return gets === known;
  });
  const before = gets;
  for (let count = 0; count < 100; count += 1) await reader.read(ref);
  assert.is(gets, before);
  changes.length = 0;
  await environment.writeSecret("followed", { other: "y", k: "one" });
  await environment.writeSecret("followed", { other: "y", k: "two" });
  await environment.tenancy.until("it has changed again", () => changes.length > 0);
  assert.equal(changes, ["any", "k"], "another key's change is none");
  assert.is(await reader.read(ref), "two");
  await client.delete(secrets, { namespace: NAMESPACE, name: "followed" });
  await environment.tenancy.until("it has gone", () => changes.length > 2);
  assert.match(String(await failure(reader.read(ref))), "does not exist");
  reader.close();
  assert.match(String(await failure(reader.read(ref))), "no longer served");
});

test.after(() => environment?.stop());

test.run();
