import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, jobs, leases, pods } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import { label } from "../../../crds/labels.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { pause, waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { countedKinds, leastWrites, startDyingOperator } from "../dying-operator.ts";
import { exists, NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";
import { BUILDS, built, type PretendBuilders, startPretendBuilders } from "./pretend-builders.ts";

const test = suite("operator killed during a build");
const TENANCY_REGISTRY = "registry.example.com/built";
const DIGEST = `sha256:${"1".repeat(64)}`;
const { builds } = operatorConfig({ TENANCY_REGISTRY });
let tenancy: Tenancy;
let builders: PretendBuilders;
let count = 0;

test.before(async () => {
  tenancy = await startTenancy("test-builds-killed", { nodes: false });
  builders = await startPretendBuilders(tenancy.client);
});
test.after(async () => {
  await builders?.stop();
  await tenancy?.stop();
});

/** What is done to a workload while an operator dies, and how it has to end. */
interface Flow {
  name: string;
  /** Before the operator that dies; what it says of the workload's build. */
  before?(name: string): Promise<void>;
  begin(name: string): Promise<void>;
  hasEnded(name: string): Promise<boolean>;
  /** Pods that were ever made for the build. */
  pods: number;
}

const flows: Flow[] = [
  {
    name: "a build",
    begin: createBuilt,
    async hasEnded(name) {
      const { status } = await tenancy.client.get(workloads, { namespace: NAMESPACE, name });
      return status?.phase === "Ready" && status.image === `${TENANCY_REGISTRY}/${name}@${DIGEST}`;
    },
    pods: 1,
  },
  {
    name: "the deletion of a workload that is built",
    async before(name) {
      const operator = startOperator();
      await createBuilt(name);
      await tenancy.until("its build", () => builders.unfinished().length === 1);
      await operator.stop();
    },
    async begin(name) {
      await tenancy.client.delete(workloads, { namespace: NAMESPACE, name });
    },
    async hasEnded(name) {
      const labelSelector = `${label.workload}=${name}`;
      const [{ items: left }, { items: podsLeft }] = await Promise.all([
        tenancy.client.list(jobs, { namespace: BUILDS, labelSelector }),
        tenancy.client.list(pods, { namespace: BUILDS, labelSelector }),
      ]);
      return left.length + podsLeft.length === 0 && !(await exists(tenancy.client, workloads, name));
    },
    pods: 1,
  },
];

for (const flow of flows) {
  test(`${flow.name}, killed after each of its writes: its successor finishes, with one Job`, async () => {
    builders.ends(async () => (flow.before === undefined ? built(DIGEST) : new Promise(() => undefined)));
    const writes = await undisturbed(flow);
    console.log(`note: ${flow.name}: ${writes.join(", ")}`);
    let died = 0;
    for (const [index] of writes.entries()) if (await killedAfter(flow, index + 1)) died += 1;
    assert.ok(writes.length >= 2 && died >= leastWrites(writes), `${died} died of ${writes.length}`);
  });
}

function startOperator(): RunningOperator {
  return tenancy.startOperator({ config: { builds }, exec: builders.exec, contexts: builders.contexts });
}

async function createBuilt(name: string): Promise<void> {
  await tenancy.client.create(configMaps, {
    metadata: { name, namespace: NAMESPACE },
    data: { Dockerfile: "FROM scratch\n" },
  });
  const image = { dockerfile: "Dockerfile", context: { configMapRef: { name } } };
  await tenancy.createWorkload(name, { image });
}

/** Every write that an operator makes which nobody kills. */
async function undisturbed(flow: Flow): Promise<string[]> {
  const name = nextName();
  await flow.before?.(name);
  const operator = startOperator();
  await flow.begin(name);
  await untilEnded(flow, name);
  await operator.stop();
  const isWrite = ({ verb, resource, status }: RunningOperator["requests"][number]) =>
    ["create", "patch", "update", "delete"].includes(verb) && countedKinds.includes(resource) && status < 300;
  return operator.requests.filter(isWrite).map(({ verb, resource }) => `${verb} ${resource}`);
}

/** @returns whether it died by itself, which it does not where it made fewer writes this time */
async function killedAfter(flow: Flow, writes: number): Promise<boolean> {
  const name = nextName();
  await flow.before?.(name);
  const told = { TENANCY_REGISTRY, PODS_FOLDER: builders.root };
  const dying = startDyingOperator(tenancy.cluster.kubeconfigPath, writes, told);
  await flow.begin(name);
  const stop = new AbortController();
  const overtaken = waitUntil(() => flow.hasEnded(name), { what: "its end", limitMs: 120_000, signal: stop.signal })
    .then(() => pause(10_000, stop.signal))
    .then(() => false);
  overtaken.catch(() => undefined);
  const died = await Promise.race([dying.exited.then(() => true), overtaken]);
  stop.abort();
  dying.kill();
  assert.is(await dying.exited, "SIGKILL");
  await tenancy.client.delete(leases, { namespace: NAMESPACE, name: "tenancy-operator" });
  const successor = startOperator();
  await untilEnded(flow, name);
  await successor.stop();
  return died;
}

async function untilEnded(flow: Flow, name: string): Promise<void> {
  await tenancy.until(`the end of ${flow.name}`, () => flow.hasEnded(name));
  const made = [...builders.everJobs].filter(([job]) => job.startsWith(`build-${name}-`)).flatMap(([, all]) => all);
  assert.is(made.length, flow.pods, made.join(" "));
}

function nextName(): string {
  count += 1;
  return `killed-${count}x`;
}

test.run();
