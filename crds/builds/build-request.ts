import { createHash } from "node:crypto";
import { annotation } from "../labels.ts";
import type { Workload } from "../workload.ts";

/**
 * Identifies the build that a workload requests, in 16 hexadecimal digits: a reader can see whether its `status.build`
 * describes this request or an older one. A generation is not enough, since it does not change with annotations.
 */
export function buildRequest({ metadata: { annotations = {} }, spec }: Workload): string {
  const { dockerfile, context, args } = spec.image;
  const asked = [dockerfile, context, args, annotations[annotation.buildContext], annotations[annotation.rebuild]];
  return createHash("sha256").update(JSON.stringify(asked)).digest("hex").slice(0, 16);
}
