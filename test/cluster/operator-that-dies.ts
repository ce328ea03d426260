import { join } from "node:path";
// An operator that kills itself with SIGKILL right after its n-th write to `countedKinds`.
//   node --import tsx operator-that-dies.ts N      (KUBECONFIG names the cluster)
import { type ClusterClient, createClusterClient } from "../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../crds/client/config/load-cluster-config.ts";
import { createExec } from "../../crds/client/exec/exec.ts";
import { createTransport } from "../../crds/client/transport.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import type { Resource } from "../../crds/resource.ts";
import { openSink } from "../../crds/sink/event-sink.ts";
import type { OutgoingEvent } from "../../crds/sink/outgoing-event.ts";
import { openStore } from "../../crds/snapshots/open-store.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import type { UsageStore } from "../../crds/usage/usage-store.ts";
import { operatorConfig } from "../../operator/config.ts";
import { createMetrics } from "../../operator/metrics.ts";
import { createSnapshots } from "../../operator/snapshots/snapshots.ts";
import { startOperator } from "../../operator/start-operator.ts";
import { silentLog } from "../unit/silent-log.ts";
import { serveStore } from "../unit/snapshots/store-server.ts";
import { createFolderExec } from "./builds/pretend-builders.ts";
import { countedKinds } from "./dying-operator.ts";

/** A shorter one can be lost on a busy machine, and a write of a term that ends is not counted. */
const LEASE_MS = 6000;
const SLOWEST_STORE_MS = 700;
const SLOWEST_DISK_MS = 300;
let writesLeft = Number(process.argv[2]);

async function thenCount<T>(resource: Resource<KubernetesObject>, write: Promise<T>): Promise<T> {
  const result = await write;
  if (countedKinds.includes(resource.plural)) await countWrite();
  return result;
}

async function countWrite(): Promise<void> {
  if (--writesLeft !== 0) return;
  process.kill(process.pid, "SIGKILL");
  await new Promise(() => undefined);
}

const cluster = await loadClusterConfig();
const client = createClusterClient({ transport: createTransport({ config: cluster, role: "operator" }) });
const { TENANCY_REGISTRY, PODS_FOLDER, RECORDS_USAGE, TENANCY_SNAPSHOT_STORE, TENANCY_SNAPSHOT_ENDPOINT } = process.env;
const { TENANCY_SINK, TENANCY_SINK_FOLDER } = process.env;
const environment = {
  TENANCY_OPERATOR_LISTEN: "off",
  ...{ TENANCY_REGISTRY, TENANCY_SNAPSHOT_STORE, TENANCY_SNAPSHOT_ENDPOINT, TENANCY_SINK, TENANCY_SINK_FOLDER },
  TENANCY_SNAPSHOT_IMAGE: "simulated/snapshots:1",
};
const config = { ...operatorConfig(environment), leaseMs: LEASE_MS };
const dying: ClusterClient = {
  ...client,
  create: (resource, object, options) => thenCount(resource, client.create(resource, object, options)),
  replace: (resource, object, options) => thenCount(resource, client.replace(resource, object, options)),
  patch: (resource, reference, options) => thenCount(resource, client.patch(resource, reference, options)),
  delete: (resource, reference, options) => thenCount(resource, client.delete(resource, reference, options)),
};
const { namespace } = config;
const { store } = config.snapshots;
const { archives, contexts, mark, usage } = openStore(store, { client, cluster, namespace });
const dyingUsage: UsageStore = {
  ...usage,
  async append(batch, call) {
    // A store that is slower than a release: a claim that did not wait for its record would be gone before it.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * SLOWEST_STORE_MS));
    await usage.append(batch, call);
    await countWrite();
  },
};
const exec = createExec({ config: cluster });
const metrics = createMetrics();
const opened = config.sink && (await openSink(config.sink, { registry: metrics.registry, log: silentLog }));
const sink = opened && {
  ...opened,
  async add(event: OutgoingEvent): Promise<void> {
    // A disk that is slower than what becomes of a claim next.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * SLOWEST_DISK_MS));
    await opened.add(event);
  },
};
const operator = startOperator({
  client: dying,
  snapshots: createSnapshots({
    exec,
    archives,
    mark,
    most: store.most,
    namespace,
    timeoutMs: config.snapshots.timeoutMs,
  }),
  contexts: PODS_FOLDER === undefined ? contexts : (await serveStore(join(PODS_FOLDER, SNAPSHOTS_NAME))).contexts,
  usage: RECORDS_USAGE === "true" ? dyingUsage : undefined,
  sink,
  exec: PODS_FOLDER === undefined ? undefined : createFolderExec(PODS_FOLDER),
  config,
  metrics,
  log: silentLog,
  identity: `dies-${process.pid}`,
  signal: new AbortController().signal,
});
await operator.done;
