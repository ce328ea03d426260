import type { Pod } from "../../../crds/kubernetes.ts";
import { FLOOR_NAMESPACE } from "../stage/stage.ts";

/** A pod with the same containers as one that the operator made, to be created without the operator. */
export function barePod(template: Pod, name: string): Pod {
  const { nodeName: _, ...spec } = template.spec;
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: FLOOR_NAMESPACE }, spec };
}
