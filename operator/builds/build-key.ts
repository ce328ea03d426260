import { createHash } from "node:crypto";
import type { ConfigMap } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";

/** Goes up when the same inputs are to be built anew, because another version of this program builds them otherwise. */
const VERSION = 1;

/**
 * SHA-256 of all that a workload's image is made of, and of where it is kept: equal keys are one build.
 *
 * Not the digest of what was built: BuildKit can give the same inputs another one.
 *
 * @param inputs.context what the build context holds, by the digest of its content or by its place
 * @param inputs.registry where the image is kept: in another one it is not there
 */
export function buildKey(
  { metadata, spec }: Workload,
  { context, registry }: { context: string; registry: string },
): string {
  const { dockerfile = "", args = {} } = spec.image;
  const sorted = Object.entries(args).sort(([a], [b]) => (a < b ? -1 : 1));
  const rebuild = metadata.annotations?.[annotation.rebuild] ?? "";
  return sha256(JSON.stringify([VERSION, registry, context, dockerfile, sorted, rebuild]));
}

/** What the files of a ConfigMap are, whoever wrote it and in whatever order. */
export function configMapDigest({ data = {}, binaryData = {} }: ConfigMap): string {
  const files = [
    ...Object.entries(data).map(([name, text]) => [name, Buffer.from(text, "utf8").toString("base64")] as const),
    ...Object.entries(binaryData),
  ].sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256(JSON.stringify(files));
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
