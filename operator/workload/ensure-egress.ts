import { isDeepStrictEqual } from "node:util";
import { ApiError, isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { configMaps, pods, secrets } from "../../crds/client/built-in-resources.ts";
import { workloads } from "../../crds/kinds.ts";
import type { KubernetesObject, Pod, Secret } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { ownerReference, type Resource } from "../../crds/resource.ts";
import { secretRefusal } from "../../crds/secret-refusal.ts";
import type { Workload } from "../../crds/workload.ts";
import { egressCertificates } from "../egress/egress-certificates.ts";
import { type EgressNames, egressNames, formerEgressNames } from "../egress/egress-names.ts";
import {
  type EgressObjects,
  type EgressVersions,
  egressObjects,
  presentCertificates,
} from "../egress/egress-objects.ts";
import { type EgressRules, egressRules } from "../egress/egress-rules.ts";
import { renderPod } from "../pod/render-pod.ts";
import type { EgressInformers, WorkloadContext } from "./context.ts";
import { hurryProxies } from "./hurry-proxies.ts";

export interface EgressOutcome {
  /** Why no pod with the proxy can be created. */
  readonly problem?: { readonly reason: "RedirectForbidden" | "SecretRefused"; readonly message: string };
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number;
}

// The name of a pod that is never created.
const PROBE = "tenancy-egress-probe";
// How often to check that the cluster still accepts such pods; watches show edits and deletions at once.
const LOOK_AGAIN_MS = 10 * 60_000;
const ASK_AGAIN_MS = 60_000;

/**
 * Applies the objects of a workload's proxy, renews its certificates, and asks the API server whether it accepts a pod
 * with NET_ADMIN. For a workload without a proxy, it deletes the objects of an older spec.
 */
export async function ensureEgress(workload: Workload, context: WorkloadContext): Promise<EgressOutcome> {
  const { name, uid = "", generation = 0 } = workload.metadata;
  const { ensuredEgress } = context;
  const rules = egressRules(workload.spec);
  if (rules === undefined) {
    await deleteUnusedEgress(name, context);
    forgetEgress(workload, context);
    return {};
  }
  const ensured = ensuredEgress.get(uid);
  const now = context.serverNow();
  if (ensured?.generation === generation && now < ensured.untilMs && isCurrent(workload, ensured.versions, context)) {
    return { requeueAfterMs: ensured.untilMs - now };
  }
  const named = await readNamedSecrets(rules, context);
  const before = ensured?.versions.settings ?? settingsOf(workload, context)?.metadata.resourceVersion;
  const { renewAtMs, versions } = await applyObjects(workload, { rules, named }, context);
  const { settings } = versions;
  const areNamedSame = ensured === undefined || isDeepStrictEqual(ensured.versions.named, versions.named);
  if (before !== undefined && settings !== undefined && (before !== settings || !areNamedSame))
    await hurryProxies(workload, areNamedSame ? settings : `${settings}, ${now}`, context);
  // Where there is a problem, the next run looks at everything again, and only hurries what changes after this one.
  ensuredEgress.set(uid, { generation, untilMs: 0, versions });
  if (named.refusals.length > 0) {
    const message = `spec.network.credentials: ${named.refusals.join("; ")}`;
    return { problem: { reason: "SecretRefused", message }, requeueAfterMs: ASK_AGAIN_MS };
  }
  const refusal = await podRefusal(workload, context);
  if (refusal !== undefined) {
    const message = `the cluster refuses pods whose init container has NET_ADMIN, which closes the network but for the allowlist: allow it in namespace "${context.config.namespace}", or leave spec.network.allowlist and spec.network.credentials empty (${refusal})`;
    return { problem: { reason: "RedirectForbidden", message }, requeueAfterMs: ASK_AGAIN_MS };
  }
  const untilMs = Math.min(now + LOOK_AGAIN_MS, renewAtMs);
  ensuredEgress.set(uid, { generation, untilMs, versions });
  return { requeueAfterMs: Math.max(0, untilMs - now) };
}

/** Deletes the proxy's objects of a workload that needs no proxy any more, or is gone. */
export async function deleteUnusedEgress(workload: string, context: WorkloadContext): Promise<void> {
  if (presentObjects(workload, context).length === 0) return;
  // Ask the API server, since the workloads' watch may be behind that of the objects.
  const found = await context.cluster(workloads).named(workload).find();
  if (found === undefined || egressRules(found.spec) === undefined) await deleteEgress(workload, context);
}

/**
 * Deletes the objects of a workload's proxy. Without an image for proxies, the operator may not delete them: they stay
 * until it has one, or until the workload is deleted, which owns them.
 */
export async function deleteEgress(workload: string, context: WorkloadContext): Promise<void> {
  for (const { resource, object } of presentObjects(workload, context))
    await context.cluster(resource).of(object).delete();
}

/** Forgets the state of a workload's proxy. */
export function forgetEgress({ metadata: { uid = "" } }: Workload, { ensuredEgress, metrics }: WorkloadContext): void {
  ensuredEgress.delete(uid);
  metrics.forgetCertificate({ use: "egress", uid });
}

interface PresentObject {
  readonly resource: Resource<KubernetesObject>;
  readonly part: keyof EgressNames;
  readonly object: KubernetesObject;
  /** Whether an earlier version created it under another name. */
  readonly isFormer: boolean;
}

/** The objects of a workload's proxy in the caches. */
function presentObjects(workload: string, { config, informers: { egress } }: WorkloadContext): PresentObject[] {
  if (egress === undefined) return [];
  const [names, former] = [egressNames(workload), formerEgressNames(workload)];
  const all = [
    { resource: configMaps, informer: egress.configMaps, part: "settings" },
    { resource: secrets, informer: egress.secrets, part: "leaves" },
    { resource: secrets, informer: egress.secrets, part: "authority" },
  ] as const;
  return all.flatMap(({ resource, informer, part }) =>
    [...new Set([names[part], former[part]])].flatMap((name) => {
      const object = informer.store.get({ namespace: config.namespace, name });
      if (object === undefined) return [];
      const { labels } = object.metadata;
      const isFormer = name !== names[part];
      // Another workload's objects may have the same former name.
      const isOwn = !isFormer || (labels?.[label.managed] === "true" && labels[label.workload] === workload);
      return isOwn ? [{ resource: resource as Resource<KubernetesObject>, part, object, isFormer }] : [];
    }),
  );
}

/** The objects of a workload's proxy that an earlier version created under other names. */
function formerObjects(workload: string, context: WorkloadContext): PresentObject[] {
  return presentObjects(workload, context).filter(({ isFormer }) => isFormer);
}

/** Updates former objects that pods of an earlier version still mount, and deletes the others. */
async function ensureFormer(workload: string, objects: EgressObjects, context: WorkloadContext): Promise<void> {
  const { cluster, informers } = context;
  for (const { resource, part, object } of formerObjects(workload, context)) {
    const { name } = object.metadata;
    const current = objects[part];
    const isMounted = [...informers.pods.store.by("workload", workload)].some((pod) => mounts(pod, name));
    try {
      if (part === "authority" || current === undefined || !isMounted) await cluster(resource).of(object).delete();
      else await cluster(resource).apply({ ...current, metadata: { ...current.metadata, name } });
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
}

function mounts({ spec }: Pod, name: string): boolean {
  const sources = (spec?.volumes ?? []).flatMap(({ projected }) => projected?.sources ?? []);
  return sources.some(({ configMap, secret }) => configMap?.name === name || secret?.name === name);
}

function settingsOf({ metadata }: Workload, { config, informers }: WorkloadContext): KubernetesObject | undefined {
  const name = egressNames(metadata.name).settings;
  return informers.egress?.configMaps.store.get({ namespace: config.namespace, name });
}

/** Whether the objects still have the checked versions. */
function isCurrent({ metadata }: Workload, versions: EgressVersions, { config, informers }: WorkloadContext): boolean {
  const names = egressNames(metadata.name);
  const versionOf = (informer: EgressInformers["secrets"] | undefined, name: string) =>
    informer?.store.get({ namespace: config.namespace, name })?.metadata.resourceVersion;
  return (
    versionOf(informers.egress?.configMaps, names.settings) === versions.settings &&
    (versions.leaves === undefined || versionOf(informers.egress?.secrets, names.leaves) === versions.leaves) &&
    (versions.authority === undefined ||
      versionOf(informers.egress?.secrets, names.authority) === versions.authority) &&
    [...versions.named].every(([name, version]) => versionOf(informers.egress?.secrets, name) === version)
  );
}

/** The Secrets that credentials name, read from the API server. */
interface NamedSecrets {
  readonly versions: ReadonlyMap<string, string | undefined>;
  readonly usable: ReadonlySet<string>;
  /** Why other existing Secrets cannot be used. */
  readonly refusals: readonly string[];
}

async function readNamedSecrets(
  { credentials }: EgressRules,
  { cluster, config }: WorkloadContext,
): Promise<NamedSecrets> {
  const { secretPolicy: policy } = config;
  const names = new Set(credentials.flatMap(({ headers }) => headers.map(({ value }) => value.name)));
  const versions = new Map<string, string | undefined>();
  const usable = new Set<string>();
  const refusals: string[] = [];
  for (const name of [...names].sort()) {
    const secret = await cluster(secrets).named(name).find({ refresh: true });
    versions.set(name, secret?.metadata.resourceVersion);
    const refusal = secretRefusal({ name, secret, use: "workload", policy });
    if (refusal !== undefined) refusals.push(refusal);
    else if (secret !== undefined) usable.add(name);
  }
  return { versions, usable, refusals };
}

async function applyObjects(
  workload: Workload,
  { rules, named }: { rules: EgressRules; named: NamedSecrets },
  context: WorkloadContext,
): Promise<{ renewAtMs: number; versions: EgressVersions }> {
  const { cluster, config, metrics, log } = context;
  const { namespace } = config;
  const { metadata } = workload;
  const names = egressNames(metadata.name);
  const domains = rules.credentials.map(({ domain }) => domain);
  let certificates: Awaited<ReturnType<typeof egressCertificates>> | undefined;
  let found: { authority?: Secret | undefined; leaves?: Secret | undefined } = {};
  if (domains.length > 0) {
    const [authority, leaves] = await Promise.all([
      cluster(secrets).named(names.authority).find({ refresh: true }),
      cluster(secrets).named(names.leaves).find({ refresh: true }),
    ]);
    found = { authority, leaves };
    const present = presentCertificates({
      authority: authority ?? (await readFormer("authority", metadata.name, context)),
      leaves: leaves ?? (await readFormer("leaves", metadata.name, context)),
    });
    certificates = await egressCertificates({ workload: metadata.name, domains, now: new Date(), present });
  }
  const { openedRanges, extraAuthorities } = config.egress;
  const objects = egressObjects({
    workload: metadata.name,
    namespace,
    owner: ownerReference(workloads, workload),
    rules,
    certificates,
    usableSecrets: named.usable,
    openedRanges,
    extraAuthorities,
  });
  const isMarked = hasMarksOf(found.authority, objects.authority) && hasMarksOf(found.leaves, objects.leaves);
  if (certificates?.isChanged || !isMarked) {
    // Write the authority first: leaves are useless without it.
    found = {
      authority: objects.authority && (await cluster(secrets).apply(objects.authority)),
      leaves: objects.leaves && (await cluster(secrets).apply(objects.leaves)),
    };
    const renewAt = certificates?.renewAt.toISOString();
    if (certificates?.isChanged) log.info({ workload: metadata.name, renewAt }, "egress certificates issued");
  }
  const certificate = { use: "egress", uid: metadata.uid ?? "" } as const;
  if (certificates === undefined) metrics.forgetCertificate(certificate);
  else metrics.keepCertificate(certificate, certificates);
  const settings = await cluster(configMaps).apply(objects.settings);
  await ensureFormer(metadata.name, objects, context);
  return {
    renewAtMs: certificates?.renewAt.getTime() ?? Number.POSITIVE_INFINITY,
    versions: {
      settings: settings.metadata.resourceVersion,
      leaves: found.leaves?.metadata.resourceVersion,
      authority: found.authority?.metadata.resourceVersion,
      named: named.versions,
    },
  };
}

/** Whether a Secret has the labels and the owner of the rendered one. */
function hasMarksOf(found: Secret | undefined, wanted: Secret | undefined): boolean {
  const { labels = {}, ownerReferences = [] } = wanted?.metadata ?? {};
  return (
    Object.entries(labels).every(([key, value]) => found?.metadata.labels?.[key] === value) &&
    ownerReferences.every(({ uid }) => found?.metadata.ownerReferences?.some((owner) => owner.uid === uid))
  );
}

/** A Secret of an earlier version: its authority stays in use, since programs trust it. */
async function readFormer(
  part: "authority" | "leaves",
  workload: string,
  context: WorkloadContext,
): Promise<Secret | undefined> {
  const former = formerObjects(workload, context).find((object) => object.part === part);
  if (former === undefined) return undefined;
  return context.cluster(secrets).of(former.object).find();
}

/** Why admission refuses the workload's pod, from a create with `dryRun`; undefined if it accepts the pod. */
async function podRefusal(workload: Workload, { cluster, config }: WorkloadContext): Promise<string | undefined> {
  const pod = renderPod(workload, { name: PROBE, labels: {}, annotations: {} }, config);
  try {
    await cluster(pods).create(pod, { dryRun: true });
    return undefined;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403 && !/exceeded quota/.test(error.message))
      return error.message;
    // Claims will report all other problems.
    if (error instanceof ApiError && error.status < 500) return undefined;
    throw error;
  }
}
