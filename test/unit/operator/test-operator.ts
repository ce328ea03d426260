import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { claimKey } from "../../../crds/claims/claim-key.ts";
import {
  configMaps,
  jobs,
  networkPolicies,
  pods,
  resourceQuotas,
  secrets,
} from "../../../crds/client/built-in-resources.ts";
import type { RecordedEvent } from "../../../crds/client/event-recorder.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { createBackgroundWork } from "../../../operator/background-work.ts";
import { createBuildTurns, isQueued } from "../../../operator/builds/build-turns.ts";
import { isWaiting, needsHelper } from "../../../operator/claim/claim-status.ts";
import { createTimelines } from "../../../operator/claim/timeline.ts";
import { createOperatorCluster } from "../../../operator/cluster/operator-cluster.ts";
import { type OperatorConfig, operatorConfig } from "../../../operator/config.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import type { Informers } from "../../../operator/informers.ts";
import { createMetrics } from "../../../operator/metrics.ts";
import { createStartExplanations } from "../../../operator/pod/explain-start.ts";
import { createNodeSilence } from "../../../operator/pod/node-silence.ts";
import { createProgramRuns } from "../../../operator/pod/program-runs.ts";
import { createSeenTimes } from "../../../operator/pod/seen-times.ts";
import { createPoolEvents } from "../../../operator/pool/pool-events.ts";
import { createFailureRecord } from "../../../operator/pool/pool-failures.ts";
import { poolIndex, warmIndex } from "../../../operator/pool/pool-member.ts";
import { createPoolRefusals } from "../../../operator/pool/pool-refusals.ts";
import { createPromisedPods } from "../../../operator/pool/promised-pods.ts";
import { createRefillPause } from "../../../operator/pool/refill-pause.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { MemoryApi } from "../memory-api.ts";
import { memoryInformer } from "../memory-informer.ts";
import { silentLog } from "../silent-log.ts";

/** What every reconciler works with, over an API in memory whose writes the caches show at once. */
export interface TestOperator {
  readonly api: MemoryApi;
  readonly context: OperatorContext;
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
} & Partial<Omit<OperatorContext, "config" | "snapshots" | "contexts">> = {}): TestOperator {
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
  const context: OperatorContext = {
    cluster: createOperatorCluster({ client: api.client, namespace, informers, serviceWatch }),
    ...{ client: api.client, config, informers, serviceWatch, log: silentLog, metrics: createMetrics() },
    events: recorder,
    poolEvents: createPoolEvents({ events: recorder }),
    poolRefusals: createPoolRefusals({ onChange: () => undefined }),
    poolFailures: createFailureRecord({ onChange: () => undefined }),
    refillPause: createRefillPause(),
    promisedPods: createPromisedPods(),
    ...{
      reservedPods: new Set(),
      editedPods: new Map(),
      ownPods: new Set(),
      seenUses: new Map(),
      restoreFailures: new Map(),
    },
    ...{ notices: new Map(), ensuredEgress: new Map(), traces: undefined, exec: undefined },
    snapshots: { ...noSnapshots, ...snapshots },
    contexts: { put: unexpected("put"), open: unexpected("open"), erase: unexpected("erase"), ...contexts },
    startExplanations: createStartExplanations(),
    archiveLookups: createBackgroundWork({ concurrency: 1 }),
    restores: createBackgroundWork({ concurrency: 1 }),
    saves: createBackgroundWork({ concurrency: 1 }),
    fileChecks: createBackgroundWork({ concurrency: 1 }),
    feeds: createBackgroundWork({ concurrency: 2 }),
    timelines: createTimelines(Date.now),
    nodeSilence: createNodeSilence({ limitMs: config.nodeTimeoutMs }),
    seenTimes: createSeenTimes(),
    programRuns: createProgramRuns(),
    buildTurns: createBuildTurns(),
    helperStart: {
      wanted: undefined,
      isFailing: false,
      hasVolume: undefined,
      next: async () => undefined,
      announce: () => undefined,
    },
    onFailure(error) {
      throw error;
    },
    ...{ enqueueClaim: () => undefined, enqueueWorkload: () => undefined },
    ...{ serverNow: Date.now, startedAt: 0, historySince: undefined, isLeading: () => true },
    ...overrides,
  };
  return { api, context, events };
}

/** With the indexes of `startInformers`. */
function informersOver(api: MemoryApi, config: OperatorConfig): Informers {
  return {
    claims: memoryInformer(api, {
      resource: claims,
      indexes: {
        uid: ({ metadata }) => metadata.uid,
        key: ({ spec }) => claimKey(spec),
        instance: ({ status }) => status?.instanceId,
        using: ({ spec, status }) => (status?.phase === "Error" ? undefined : spec.workloadRef),
        needsHelper: (claim) => (needsHelper(claim) ? "" : undefined),
        waitingFor: (claim) => (isWaiting(claim) ? claim.spec.workloadRef : undefined),
      },
    }),
    workloads: memoryInformer(api, {
      resource: workloads,
      indexes: {
        queuedBuild: (workload) => (isQueued(workload) ? "" : undefined),
        configMap: ({ spec }) => spec.image.context?.configMapRef?.name,
      },
    }),
    pools: memoryInformer(api, { resource: pools, indexes: { workload: ({ spec }) => spec.workloadRef } }),
    pods: memoryInformer(api, {
      resource: pods,
      indexes: {
        claimUid: ({ metadata }) => metadata.annotations?.[annotation.claimUid],
        workload: ({ metadata }) => metadata.labels?.[label.workload],
        ...{ pool: poolIndex, warm: warmIndex },
      },
      isSelected: ({ metadata }) => metadata.namespace === config.namespace && metadata.name !== SNAPSHOTS_NAME,
    }),
    helperPods: memoryInformer(api, {
      ...{ resource: pods, indexes: {} },
      isSelected: ({ metadata }) => metadata.name === SNAPSHOTS_NAME,
    }),
    networkPolicies: memoryInformer(api, { resource: networkPolicies, indexes: {} }),
    resourceQuotas: memoryInformer(api, { resource: resourceQuotas, indexes: {} }),
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
  ...{ runPreSave: unexpected("runPreSave"), find: unexpected("find"), save: unexpected("save") },
  ...{ restore: unexpected("restore"), uses: unexpected("uses"), delete: unexpected("delete") },
  ...{ touch: unexpected("touch"), tidy: unexpected("tidy") },
  ...{ prepare: ignored, warm: ignored, cancelPrestarted: ignored, forgetPod: ignored },
  ...{ forgetVolume: ignored, close: ignored },
};
