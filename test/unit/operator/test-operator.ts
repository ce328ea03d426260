import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import {
  configMaps,
  jobs,
  networkPolicies,
  nodes,
  pods,
  resourceQuotas,
  secrets,
} from "../../../crds/client/built-in-resources.ts";
import { steadyClock } from "../../../crds/client/clock.ts";
import type { RecordedEvent } from "../../../crds/client/event-recorder.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { noQuotas } from "../../../crds/quotas/tenant-quotas.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { createBuildMemory } from "../../../operator/builds/context.ts";
import { createClaimMemory } from "../../../operator/claim/context.ts";
import { type OperatorConfig, operatorConfig } from "../../../operator/config.ts";
import { createMetrics } from "../../../operator/metrics.ts";
import { createOperatorCluster } from "../../../operator/operator-cluster.ts";
import { createPodMemory } from "../../../operator/pod/context.ts";
import { zonedIndex } from "../../../operator/pod/zones.ts";
import { createPoolMemory } from "../../../operator/pool/context.ts";
import { createRoomMemory } from "../../../operator/room/context.ts";
import { createHelperStart } from "../../../operator/snapshots/context.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { indexes, type WholeContext } from "../../../operator/start-caches.ts";
import { createWorkloadMemory } from "../../../operator/workload/context.ts";
import { MemoryApi } from "../memory-api.ts";
import { memoryInformer } from "../memory-informer.ts";
import { silentLog } from "../silent-log.ts";

/** What every reconciler works with, over an API in memory whose writes the caches show at once. */
export interface TestOperator {
  readonly api: MemoryApi;
  readonly context: WholeContext;
  /** Of the cluster, as they were recorded. */
  readonly events: RecordedEvent[];
}

/** The environment of an operator that keeps files in object storage. */
export const onS3 = { TENANCY_SNAPSHOT_STORE: "s3://bucket", TENANCY_SNAPSHOT_REGION: "eu-central-1" };

/**
 * @param options.env of the configuration, whose namespace is `n`
 * @param options.snapshots what it answers. @default a call that tells or moves something fails
 */
export function testOperator({
  env,
  snapshots,
  contexts,
  ...overrides
}: {
  env?: Record<string, string>;
  snapshots?: Partial<Snapshots>;
  contexts?: Partial<BuildContexts>;
} & Partial<Omit<WholeContext, "config" | "snapshots" | "contexts">> = {}): TestOperator {
  const config = operatorConfig({ TENANCY_NAMESPACE: "n", ...env });
  const api = new MemoryApi(config.namespace);
  const events: RecordedEvent[] = [];
  const recorder = { record: (event: RecordedEvent) => void events.push(event), flush: async () => undefined };
  const { namespace } = config;
  const informers = overrides.informers ?? informersOver(api, config);
  const serviceWatch = overrides.serviceWatch ?? {
    isOpen: false,
    open: () => undefined,
    put: () => undefined,
    close: () => undefined,
  };
  const context: WholeContext = {
    cluster: createOperatorCluster({ client: api.client, namespace, informers, serviceWatch }),
    ...{ client: api.client, config, informers, serviceWatch, log: silentLog, metrics: createMetrics() },
    events: recorder,
    ...createPodMemory(config),
    ...createPoolMemory({ events: recorder, onChange: () => undefined }),
    ...createRoomMemory({ onChange: () => undefined }),
    ...createBuildMemory(config),
    ...createClaimMemory({ config }),
    ...createWorkloadMemory(),
    ...{ pullPlans: new Map(), clock: steadyClock },
    ...{ exec: undefined, readImageConfig: () => Promise.reject(new Error("there is no registry")) },
    snapshots: { ...noSnapshots, ...snapshots },
    contexts: { put: unexpected("put"), open: unexpected("open"), erase: unexpected("erase"), ...contexts },
    helperStart: { ...createHelperStart(), next: async () => undefined },
    onFailure(error) {
      throw error;
    },
    ...{ enqueueClaim: () => undefined, enqueueWorkload: () => undefined },
    ...{ serverNow: Date.now, startedAt: 0, historySince: undefined, isLeading: () => true },
    ...overrides,
  };
  return { api, context, events };
}

/** With the indexes of `startCaches`. */
function informersOver(api: MemoryApi, config: OperatorConfig): WholeContext["informers"] {
  return {
    claims: memoryInformer(api, { resource: claims, indexes: indexes.claims }),
    workloads: memoryInformer(api, { resource: workloads, indexes: indexes.workloads }),
    pools: memoryInformer(api, { resource: pools, indexes: indexes.pools }),
    pods: memoryInformer(api, {
      ...{ resource: pods, indexes: indexes.pods },
      isSelected: ({ metadata }) => metadata.namespace === config.namespace && metadata.name !== SNAPSHOTS_NAME,
    }),
    helperPods: memoryInformer(api, {
      ...{ resource: pods, indexes: {} },
      isSelected: ({ metadata }) => metadata.name === SNAPSHOTS_NAME,
    }),
    networkPolicies: memoryInformer(api, { resource: networkPolicies, indexes: {} }),
    nodes: config.watchNodes
      ? memoryInformer<KubernetesObject, "zoned">(api, { resource: nodes, indexes: { zoned: zonedIndex } })
      : undefined,
    resourceQuotas: memoryInformer(api, { resource: resourceQuotas, indexes: {} }),
    quotas: {
      configMap: memoryInformer(api, { resource: configMaps, indexes: {} }),
      current: () => noQuotas,
      problem: () => undefined,
    },
    egress:
      config.egress.image === undefined
        ? undefined
        : {
            configMaps: memoryInformer(api, { resource: configMaps, indexes: {} }),
            secrets: memoryInformer(api, { resource: secrets, indexes: {} }),
          },
    builds: config.builds && {
      jobs: memoryInformer(api, {
        resource: jobs,
        indexes: { workload: ({ metadata }) => metadata.labels?.[label.workload] },
      }),
      pods: memoryInformer(api, {
        ...{ resource: pods, indexes: {} },
        isSelected: ({ metadata }) => metadata.namespace === config.builds?.namespace,
      }),
      policies: memoryInformer(api, { resource: networkPolicies, indexes: {} }),
      configMaps: memoryInformer(api, { resource: configMaps, indexes: {} }),
    },
  };
}

function unexpected(call: string): () => never {
  return () => {
    throw new Error(`unexpected call of ${call}`);
  };
}

const ignored = (): void => undefined;

const noSnapshots: Snapshots = {
  ...{
    runPreSave: unexpected("runPreSave"),
    stopProgram: unexpected("stopProgram"),
    find: unexpected("find"),
    findCheckpoint: async () => undefined,
    dropCheckpoint: async () => false,
    namesOf: async () => [],
    setName: async () => "named" as const,
    save: unexpected("save"),
  },
  ...{ restore: unexpected("restore"), uses: unexpected("uses"), delete: unexpected("delete") },
  ...{ touch: unexpected("touch"), tidy: unexpected("tidy") },
  ...{ prepare: ignored, warm: ignored, cancelPrestarted: ignored, forgetPod: ignored },
  ...{ forgetVolume: ignored, close: ignored },
};
