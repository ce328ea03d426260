import type { KubernetesObject } from "../kubernetes.ts";

/**
 * Whether the answer to a deletion says that the object is gone: a `Status`, or the last state of an object that nothing keeps.
 *
 * Some kinds, pods among them, are answered with the object in both cases.
 */
export function isGone(answer: KubernetesObject): boolean {
  if (answer.kind === "Status") return true;
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = answer.metadata;
  if (finalizers !== undefined && finalizers.length > 0) return false;
  return deletionTimestamp === undefined || !deletionGracePeriodSeconds;
}
