import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, claimLabels, finalizer, label } from "../../../crds/labels.ts";
import { claimName } from "../../../crds/names.ts";
import { FLOOR_NAMESPACE } from "../environment/start-environment.ts";

/** The three writes that a pool claim needs at least, in sequence, with the client of operator and edge. */
export interface PoolFloor {
  /**
   * Does them once. Returns the milliseconds from the start of the first to the last response, and adds them to
   * `samplesMs`.
   */
  sample(): Promise<number>;
  readonly samplesMs: readonly number[];
  /** The pod after the last of them. */
  pod(): Pod;
}

/** @param options.pod a Ready pod without an owner, to be bound again and again */
export function createPoolFloor(options: { client: ClusterClient; pod: Pod; tenantPrefix: string }): PoolFloor {
  const { client, tenantPrefix } = options;
  let { pod } = options;
  const samplesMs: number[] = [];

  async function sample(): Promise<number> {
    const tenantId = `${tenantPrefix}-${samplesMs.length}`;
    const workloadRef = "floor";
    const began = performance.now();
    const claim = await client.create(claims, newClaim(tenantId, workloadRef));
    pod = await bind(claim);
    await activate(claim);
    const ms = performance.now() - began;
    samplesMs.push(ms);
    return ms;
  }

  function bind({ metadata, spec }: Claim): Promise<Pod> {
    const { name, resourceVersion } = pod.metadata;
    const bound = {
      resourceVersion,
      labels: { [label.tenant]: spec.tenantId, [label.pool]: null, [label.poolStatus]: null },
      annotations: {
        [annotation.claimUid]: metadata.uid,
        [annotation.claim]: metadata.name,
        [annotation.incarnation]: "0",
        [annotation.source]: "pool",
        [annotation.claimedAt]: new Date().toISOString(),
      },
    };
    return client.patch(pods, { namespace: FLOOR_NAMESPACE, name }, { type: "merge", body: { metadata: bound } });
  }

  function activate({ metadata }: Claim): Promise<Claim> {
    const { name, resourceVersion } = metadata;
    const status = {
      observedGeneration: 1,
      phase: "Active",
      instanceId: pod.metadata.name,
      endpoint: { host: pod.status?.podIP, port: 8080 },
      source: "pool",
      claimedAt: new Date().toISOString(),
    };
    const body = { metadata: { resourceVersion }, status };
    return client.patch(claims, { namespace: FLOOR_NAMESPACE, name }, { type: "merge", subresource: "status", body });
  }

  return { sample, samplesMs, pod: () => pod };
}

/** As the REST API creates one. */
function newClaim(tenantId: string, workloadRef: string): Claim {
  return {
    metadata: {
      name: claimName({ tenantId, workloadRef }),
      namespace: FLOOR_NAMESPACE,
      labels: claimLabels({ tenantId, workloadRef }),
      finalizers: [finalizer.release],
    },
    spec: { tenantId, workloadRef, resume: false },
  };
}
