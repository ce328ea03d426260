import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ifFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { Edge } from "../../../edge/edge.ts";
import { type SimulatedNodes, startSimulatedNodes } from "../../../scripts/cluster/simulated/simulated-node.ts";
import { heldBack } from "../held-back.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { askAt, type NamedPods, POD_NETWORK, startNamedPods } from "./named-pods.ts";
import { startDoor } from "./start-door.ts";

const test = suite("the front door, where an address that is given back is the next pod's");

const KEY = "reused-key";
let tenancy: Tenancy;
let named: NamedPods;
let nodes: SimulatedNodes | undefined;
const ends: (() => Promise<unknown>)[] = [];

test.before(async () => {
  // What the API server says after a connection has opened may be of the next pod at the address. The nodes know.
  named = await startNamedPods(
    () => tenancy.client,
    (address) => nodes?.podAt(address),
  );
  tenancy = await startTenancy("reused", { nodes: false });
  const { kubeconfigPath } = tenancy.cluster;
  nodes = await startSimulatedNodes({ kubeconfigPath, nodes: 2, podNetwork: POD_NETWORK, reuseAddresses: true });
  tenancy.pods.subscribe(named.onPod);
  tenancy.startOperator();
  await tenancy.createWorkload("app", { network: { ports: [named.port], expose: "key" } });
});

test.after(async () => {
  for (const end of ends.reverse()) await end();
  await nodes?.stop();
  await tenancy?.stop();
  await named?.stop();
});

async function startedDoor(wrap?: (client: ClusterClient) => ClusterClient): Promise<Edge> {
  const { kubeconfigPath } = tenancy.cluster;
  const started = await startDoor({ kubeconfigPath, apiKey: KEY, ...(wrap !== undefined && { wrap }) });
  ends.push(started.stop);
  return started.door;
}

const ask = (edge: Edge, tenant: string) =>
  askAt(edge.proxyUrl, `app--${tenant}.localhost`, { headers: { "x-tenancy-key": KEY } });

/** Ends a tenant's pod at once, as the API's destroy does, so that its address is the next pod's. */
async function destroyPod(tenant: string): Promise<string | undefined> {
  const claim = await tenancy.client.get(claims, { namespace: NAMESPACE, name: `claim-${tenant}-app` });
  const { instanceId: name, endpoint } = claim.status ?? {};
  if (name === undefined) return undefined;
  const body = { metadata: { annotations: { [annotation.destroyed]: name } } };
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name: claim.metadata.name }, { type: "merge", body });
  await ifFound(tenancy.client.delete(pods, { namespace: NAMESPACE, name }, { gracePeriodSeconds: 0 }));
  return endpoint?.host;
}

/** A door that learns of pods and claims only so much later, and meanwhile goes by what it knew. */
const startLateDoor = (delayMs: number): Promise<Edge> =>
  startedDoor((client) => heldBack(heldBack(client, "pods", delayMs), "tenancyclaims", delayMs));

test("rounds of destroying and waking beside each other: nobody is answered by another's pod", async () => {
  const edge = await startedDoor();
  const late = await startLateDoor(200);
  const ROUNDS = 8;
  const tenants = ["ann", "ben", "cem", "dee", "eli"];
  const wrong: string[] = [];
  const statuses = new Map<number, number>();
  const addresses = new Map<string, Set<string>>();
  await Promise.all(
    tenants.map(async (tenant) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        // Three at once, of which two go on while the pod is ended under them.
        const asked = [ask(edge, tenant), ask(edge, tenant), ask(late, tenant)];
        const first = await Promise.race(asked);
        if (first.status === 200) {
          const host = await destroyPod(tenant);
          if (host !== undefined) addresses.set(host, (addresses.get(host) ?? new Set()).add(tenant));
        }
        for (const { status, text } of await Promise.all(asked)) {
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          if (status === 200 && text !== tenant && text !== "nobody") wrong.push(`${tenant} was answered by ${text}`);
        }
      }
    }),
  );
  const shared = [...addresses.values()].filter((holders) => holders.size > 1).length;
  console.log(`note: ${JSON.stringify([...statuses])}, ${shared} of ${addresses.size} addresses had several tenants`);
  assert.equal(wrong, []);
  assert.ok(shared > 0, "no address was used again");
  assert.ok((statuses.get(200) ?? 0) >= tenants.length * ROUNDS);
});

test("a door that is seconds late goes by the API server's word, not to the next pod at an address", async () => {
  const [prompt, late] = await Promise.all([startedDoor(), startLateDoor(3000)]);
  const LANES = 8;
  const ROUNDS = 2;
  const wrong: string[] = [];
  let taken = 0;
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const [one, two] = [`late-${lane}-${round}-a`, `late-${lane}-${round}-b`];
        // From now on the late door knows the claim and its pod.
        assert.is((await ask(late, one)).text, one);
        const host = await destroyPod(one);
        assert.is((await ask(prompt, two)).text, two);
        const { items } = await tenancy.client.list(pods, {
          namespace: NAMESPACE,
          fieldSelector: `status.podIP=${host}`,
        });
        if (items.some(({ metadata }) => metadata.labels?.[label.tenant] !== one)) taken += 1;
        for (const { status, text } of await Promise.all([ask(late, one), ask(late, one)]))
          if (status !== 200 || text !== one) wrong.push(`${one} was answered ${status} by ${text}`);
      }
    }),
  );
  console.log(`note: another's pod had the address in ${taken} of ${LANES * ROUNDS} rounds`);
  assert.equal(wrong, []);
  assert.ok(taken > 0, "no address was used again");
});

test.run();
