import type { Claim } from "../../crds/claim.ts";
import { programContainer } from "../../crds/claims/claim-pod.ts";
import { ApiError, isAlreadyExists, isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { services } from "../../crds/client/built-in-resources.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod, Service } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { serviceName } from "../../crds/names.ts";
import { ownerReference } from "../../crds/resource.ts";
import type { ReconcileResult } from "../queue.ts";
import type { ClaimContext } from "./context.ts";
import { RECHECK } from "./outcome.ts";

const TRY_AGAIN = { requeueAfterMs: 30_000 };

/**
 * Creates and updates the Service of an Active claim if its workload asks for one. The Service selects by the label of
 * the binding that made the claim Active. No other pod ever has that label: no pod of another tenant, none of an
 * earlier binding, and none that is still getting its files. That stays so while the claim waits for another pod. The
 * claim owns the Service, so they are deleted together.
 *
 * A claim does not fail for its Service: an Event says why it has none.
 */
export async function ensureService(claim: Claim, pod: Pod, context: ClaimContext): Promise<ReconcileResult> {
  const { cluster, config, informers, serviceWatch } = context;
  const { namespace } = config;
  const workload = informers.workloads.store.get({ namespace, name: claim.spec.workloadRef });
  const isWanted = workload?.spec.service === true;
  // Services are not watched until a workload asks for one.
  if (workload === undefined || (!isWanted && !serviceWatch.isOpen)) return undefined;
  const known = serviceWatch.open();
  // Every claim is reconciled when the list is complete.
  if (known === undefined) return TRY_AGAIN;
  const wanted = render(claim, pod, namespace);
  const { name } = wanted.metadata;
  const present = known.store.get({ namespace, name });
  try {
    if (present === undefined) {
      if (isWanted) await cluster(services).create(wanted);
      return undefined;
    }
    const { ownerReferences = [] } = present.metadata;
    const isOwn = ownerReferences.some((owner) => owner.uid === claim.metadata.uid);
    // The Service of an earlier claim of this name, which the garbage collector has not deleted yet.
    const isFormer =
      !isOwn && ownerReferences.some(({ kind, name }) => kind === claims.kind && name === claim.metadata.name);
    if (isFormer || (isOwn && !isWanted)) {
      const deletion = await cluster(services).of(present).delete();
      return isWanted || deletion.error !== undefined ? RECHECK : undefined;
    }
    if (!isWanted) return undefined;
    if (!isOwn) return refused(claim, `a Service named "${name}" already exists`, context);
    const { spec } = wanted;
    if (isAsWanted(present.spec, spec)) return undefined;
    const others = Object.keys(present.spec.selector ?? {}).map((key) => [key, null]);
    const selector = { ...Object.fromEntries(others), ...spec.selector };
    await cluster(services)
      .of(present)
      .patch({ spec: { selector, ports: spec.ports } });
    return undefined;
  } catch (error) {
    if (isAlreadyExists(error)) return refused(claim, `a Service named "${name}" already exists`, context);
    if (isConflict(error) || isNotFound(error)) return RECHECK;
    if (error instanceof ApiError && error.status !== 429) return refused(claim, error.message, context);
    throw error;
  }
}

function render(claim: Claim, pod: Pod, namespace: string): Service {
  const { metadata, spec } = claim;
  const own = { [label.managed]: "true", [label.tenant]: spec.tenantId, [label.workload]: spec.workloadRef };
  const program = programContainer(pod.spec);
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name: serviceName(metadata.name),
      namespace,
      labels: own,
      ownerReferences: [ownerReference(claims, claim)],
    },
    spec: {
      type: "ClusterIP",
      // A pod that an earlier version bound has no such label; the Service then selects nothing.
      selector: { ...own, [label.binding]: pod.metadata.labels?.[label.binding] ?? "none" },
      ports: (program?.ports ?? []).map(({ containerPort: port, name = `port-${port}` }) => ({
        name,
        port,
        targetPort: port,
      })),
    },
  };
}

function isAsWanted(present: Service["spec"], wanted: Service["spec"]): boolean {
  const selected = ({ selector = {} }: Service["spec"]) => JSON.stringify(Object.entries(selector).sort());
  const served = ({ ports = [] }: Service["spec"]) =>
    JSON.stringify(ports.map(({ name, port, targetPort }) => [name, port, targetPort]));
  return selected(present) === selected(wanted) && served(present) === served(wanted);
}

function refused(claim: Claim, why: string, { events }: ClaimContext): ReconcileResult {
  const message = `the claim has no Service, but works otherwise: ${why}`;
  events.record({ resource: claims, object: claim, type: "Warning", reason: "ServiceFailed", message });
  return TRY_AGAIN;
}
