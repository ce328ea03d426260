import type { Claim } from "../../crds/claim.ts";
import { podLabelsOf } from "../../crds/claims/claim-labels.ts";
import { isShown } from "../../crds/claims/claim-pod.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { ObjectMeta, Pod } from "../../crds/kubernetes.ts";
import { annotation, CLAIM_LABEL_PREFIX, label } from "../../crds/labels.ts";
import { overlayStamps } from "../snapshots/pods/pod-tools.ts";
import type { PodContext } from "./context.ts";

/**
 * The labels and annotations of a pod that only the operator writes; undefined for a key that the pod must not have.
 */
interface Marks {
  labels: Record<string, string | undefined>;
  annotations: Record<string, string | undefined>;
}

/** Written at the pod's creation, and never changed. */
const BIRTH: readonly string[] = [
  ...[label.managed, label.workload, annotation.workloadUid, annotation.templateHash, annotation.isolation],
  ...[annotation.overlayDirs, annotation.diskGb, annotation.preSave, annotation.onClaim],
];
/** Written again when a claim takes the pod. */
const BINDING: readonly string[] = [
  ...[label.pool, label.tenant, label.binding, annotation.claimUid, annotation.claim, annotation.incarnation],
  ...[annotation.source, annotation.resumedFrom, annotation.restoredFrom, annotation.claimedAt],
  ...[annotation.idleAction, annotation.idleTimeoutSeconds, annotation.countBackground],
];
const MARKS = [...BIRTH, ...BINDING];
const LABELS: readonly string[] = [label.managed, label.workload, label.pool, label.tenant, label.binding];

/** The value of the label that identifies a claimed pod among all pods, also among those of the same claim. */
export function bindingOf(claim: Claim, revision: number): string {
  return `${claim.metadata.uid}.${revision}`;
}

/** The revision of a pod: its number among the pods of its claim. */
export function podRevisionOf(pod: Pod): number {
  return Number(pod.metadata.annotations?.[annotation.incarnation] ?? 0);
}

/** The revision of the claim's current pod, counted from 0. */
export function currentRevision(claim: Claim): number {
  return claim.status?.podIncarnation ?? 0;
}

/** Whether the pod was created for a workload; the operator ignores all other pods of the namespace. */
export function isInstance(pod: Pod): boolean {
  return pod.metadata.name.startsWith("inst-") && MARKS.some((key) => markOf(pod, key) !== undefined);
}

/**
 * The claim that owns the pod, from the caches.
 *
 * The claim's status decides, which names the pod by its uid: people can edit the labels and annotations of a pod.
 * Before the claim is Active, two marks of the pod have to name it, so that an edit of one gives the pod to no other
 * claim.
 */
export function ownerOf(pod: Pod, { informers }: Pick<PodContext, "informers">): Claim | undefined {
  const { store } = informers.claims;
  for (const claim of store.by("instance", pod.metadata.name)) if (isShown(pod, claim)) return claim;
  const claimUid = pod.metadata.annotations?.[annotation.claimUid];
  if (claimUid === undefined) return undefined;
  for (const claim of store.by("uid", claimUid)) if (isBoundTo(pod, claim)) return claim;
  return undefined;
}

/** Whether two marks of the pod name the claim. */
export function isBoundTo(pod: Pod, claim: Claim): boolean {
  const { labels, annotations } = pod.metadata;
  const revision = podRevisionOf(pod);
  if (annotations?.[annotation.claimUid] !== claim.metadata.uid || !(revision >= 0)) return false;
  return labels?.[label.tenant] === claim.spec.tenantId || labels?.[label.binding] === bindingOf(claim, revision);
}

/**
 * Whether another client than the operator changed marks of the pod, and {@link markChanges} can restore them. The
 * operator changes them only once, when a claim takes a warm pod. A warm pod that got marks of a claim is not restored:
 * a tenant may have used it in between, so no other tenant may get it.
 */
export function isEdited({ object, previous }: Change<Pod>): boolean {
  if (previous === undefined || !isTakenBack(object, previous)) return false;
  return marksOf(object, previous).some((key) => markOf(object, key) !== markOf(previous, key));
}

function isTakenBack(pod: Pod, before: Pod): boolean {
  return isBound(before) || !isBound(pod);
}

/**
 * The patch that restores a pod's marks; undefined if the pod has them all.
 *
 * @param owner from {@link ownerOf}
 * @param before the pod before it was edited, if this process saw that
 */
export function markChanges(
  pod: Pod,
  { owner, before }: { owner: Claim | undefined; before?: Pod | undefined },
): Pick<ObjectMeta, "labels" | "annotations"> | undefined {
  const wanted: Marks = { labels: {}, annotations: {} };
  const known = before !== undefined && isTakenBack(pod, before) ? before : undefined;
  if (known !== undefined)
    for (const key of marksOf(pod, known)) wanted[isLabel(key) ? "labels" : "annotations"][key] = markOf(known, key);
  if (owner !== undefined) {
    for (const key of claimLabelsOf(pod)) wanted.labels[key] = undefined;
    addOwnMarks(wanted, { owner, pod: known ?? pod });
  }
  Object.assign(wanted.annotations, overlayStamps(pod.spec));
  const labels = difference(wanted.labels, pod.metadata.labels);
  const annotations = difference(wanted.annotations, pod.metadata.annotations);
  if (labels === undefined && annotations === undefined) return undefined;
  return { ...(labels && { labels }), ...(annotations && { annotations }) };
}

function addOwnMarks({ labels, annotations }: Marks, { owner, pod }: { owner: Claim; pod: Pod }): void {
  const { metadata, spec, status } = owner;
  const isActive = isShown(pod, owner);
  const revision = isActive ? currentRevision(owner) : podRevisionOf(pod);
  Object.assign(labels, {
    [label.managed]: "true",
    [label.workload]: spec.workloadRef,
    [label.tenant]: spec.tenantId,
    [label.binding]: bindingOf(owner, revision),
    [label.pool]: undefined,
    [label.poolStatus]: undefined,
    ...podLabelsOf(spec),
  });
  Object.assign(annotations, {
    [annotation.claimUid]: metadata.uid,
    [annotation.claim]: metadata.name,
    [annotation.incarnation]: String(revision),
    ...(isActive && status?.source !== undefined && { [annotation.source]: status.source }),
    ...(isActive && status?.resumedFrom !== undefined && { [annotation.resumedFrom]: status.resumedFrom }),
    ...(isActive && status?.restoredFrom !== undefined && { [annotation.restoredFrom]: status.restoredFrom }),
  });
}

/** As a merge patch. */
function difference(
  wanted: Readonly<Record<string, string | undefined>>,
  present: Readonly<Record<string, string>> = {},
): Record<string, string> | undefined {
  const changed = Object.entries(wanted).filter(([key, value]) => present[key] !== value);
  if (changed.length === 0) return undefined;
  return Object.fromEntries(changed.map(([key, value]) => [key, value ?? null])) as Record<string, string>;
}

function isBound(pod: Pod): boolean {
  return [label.tenant, label.binding, annotation.claimUid, annotation.claim].some(
    (key) => markOf(pod, key) !== undefined,
  );
}

function markOf({ metadata }: Pod, key: string): string | undefined {
  return (isLabel(key) ? metadata.labels : metadata.annotations)?.[key];
}

/** The keys of all marks that any of the pods can have. */
function marksOf(...pods: readonly Pod[]): string[] {
  return [...MARKS, ...pods.flatMap(claimLabelsOf)];
}

/** The keys of the labels that the pod has from its claim. */
function claimLabelsOf({ metadata }: Pod): string[] {
  return Object.keys(metadata.labels ?? {}).filter((key) => key.startsWith(CLAIM_LABEL_PREFIX));
}

function isLabel(key: string): boolean {
  return LABELS.includes(key) || key.startsWith(CLAIM_LABEL_PREFIX);
}
