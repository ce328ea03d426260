import { ApiError, isNotFound } from "../../crds/client/api-error.ts";
import { configMaps, pods, secrets } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient, ObjectRef } from "../../crds/client/cluster-client.ts";
import type { Secret } from "../../crds/kubernetes.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";
import { renderPod } from "../pod/render-pod.ts";
import { egressCertificates } from "./egress-certificates.ts";
import { egressNames } from "./egress-names.ts";
import { egressObjects, presentCertificates } from "./egress-objects.ts";
import { type EgressRules, egressRules } from "./egress-rules.ts";

/** When a workload's objects were last found right, and until when nothing needs to be looked at. */
export interface SettledEgress {
  readonly generation: number;
  readonly untilMs: number;
}

export interface EgressOutcome {
  /** Why no pod can be made with the proxy. */
  readonly problem?: { readonly reason: "RedirectForbidden"; readonly message: string };
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number;
}

// Of a pod that is never made.
const PROBE = "tenancy-egress-probe";
const FIELD_MANAGER = "tenancy-operator";
// What a person deleted or edited meanwhile comes back; nothing watches these objects.
const LOOK_AGAIN_MS = 10 * 60_000;
const ASK_AGAIN_MS = 60_000;

/**
 * Brings the objects that a workload's proxy lives by to what its spec says, renews its certificates, and asks the API server once
 * whether it would take a pod with NET_ADMIN (design.md, section 6). For a workload without a proxy, those of an older spec go.
 */
export async function settleEgress(workload: Workload, context: OperatorContext): Promise<EgressOutcome> {
  const { uid = "", generation = 0 } = workload.metadata;
  const { settledEgress } = context;
  const rules = egressRules(workload.spec);
  if (rules === undefined) {
    const { observedGeneration } = workload.status ?? {};
    if (observedGeneration !== undefined && observedGeneration !== generation) await deleteEgress(workload, context);
    settledEgress.delete(uid);
    return {};
  }
  const settled = settledEgress.get(uid);
  const now = Date.now();
  if (settled?.generation === generation && now < settled.untilMs) return { requeueAfterMs: settled.untilMs - now };
  const renewAtMs = await applyObjects(workload, rules, context);
  const refusal = await podRefusal(workload, context);
  if (refusal !== undefined) {
    const message = `the cluster refuses pods whose init container has NET_ADMIN, which closes the network but for the allowlist: allow it in namespace "${context.config.namespace}", or leave spec.network.allowlist and spec.network.credentials empty (${refusal})`;
    return { problem: { reason: "RedirectForbidden", message }, requeueAfterMs: ASK_AGAIN_MS };
  }
  const untilMs = Math.min(now + LOOK_AGAIN_MS, renewAtMs);
  settledEgress.set(uid, { generation, untilMs });
  return { requeueAfterMs: Math.max(0, untilMs - now) };
}

/** Deletes what a workload's proxy lived by. */
export async function deleteEgress({ metadata }: Workload, { client, config }: OperatorContext): Promise<void> {
  const names = egressNames(metadata.name);
  const { namespace } = config;
  for (const [resource, name] of [
    [configMaps, names.settings],
    [secrets, names.leaves],
    [secrets, names.authority],
  ] as const) {
    try {
      await client.delete(resource, { namespace, name });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}

async function applyObjects(
  { metadata }: Workload,
  rules: EgressRules,
  { client, config, log }: OperatorContext,
): Promise<number> {
  const { namespace } = config;
  const names = egressNames(metadata.name);
  const domains = rules.credentials.map(({ domain }) => domain);
  let certificates: Awaited<ReturnType<typeof egressCertificates>> | undefined;
  if (domains.length > 0) {
    const [authority, leaves] = await Promise.all([
      readSecret(client, { namespace, name: names.authority }),
      readSecret(client, { namespace, name: names.leaves }),
    ]);
    const present = presentCertificates({ authority, leaves });
    certificates = await egressCertificates({ workload: metadata.name, domains, now: new Date(), present });
  }
  const { openedRanges, extraAuthorities } = config.egress;
  const objects = egressObjects({
    ...{ workload: metadata.name, namespace, rules, certificates, openedRanges, extraAuthorities },
  });
  const options = { fieldManager: FIELD_MANAGER, force: true };
  if (certificates?.isChanged) {
    // The key first: what it signed is of no use without it.
    for (const secret of [objects.authority, objects.leaves]) {
      if (secret !== undefined) await client.apply(secrets, secret, options);
    }
    log.info({ workload: metadata.name, renewAt: certificates.renewAt.toISOString() }, "egress certificates made");
  }
  await client.apply(configMaps, objects.settings, options);
  return certificates?.renewAt.getTime() ?? Number.POSITIVE_INFINITY;
}

async function readSecret(client: ClusterClient, reference: ObjectRef): Promise<Secret | undefined> {
  try {
    return await client.get(secrets, reference);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** What admission says against such a pod, in a create that is not carried out; undefined when it takes it. */
async function podRefusal(workload: Workload, { client, config }: OperatorContext): Promise<string | undefined> {
  const pod = renderPod(workload, { name: PROBE, labels: {}, annotations: {} }, config);
  try {
    await client.create(pods, pod, { dryRun: true });
    return undefined;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403 && !/exceeded quota/.test(error.message))
      return error.message;
    // Whatever else is wrong with it, its claims will tell.
    if (error instanceof ApiError && error.status < 500) return undefined;
    throw error;
  }
}
