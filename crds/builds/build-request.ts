import { createHash } from "node:crypto";
import { annotation } from "../labels.ts";
import type { Workload } from "../workload.ts";

/**
 * What a workload asks to be built, in 16 hexadecimal digits: by it a reader knows whether its `status.build` is about
 * that, or older. A generation would not tell, since it stays the same when an annotation changes.
 */
export function buildRequest({ metadata: { annotations = {} }, spec }: Workload): string {
  const { dockerfile, context, args } = spec.image;
  const asked = [dockerfile, context, args, annotations[annotation.buildContext], annotations[annotation.rebuild]];
  return createHash("sha256").update(JSON.stringify(asked)).digest("hex").slice(0, 16);
}
