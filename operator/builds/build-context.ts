import { createHash } from "node:crypto";
import { ApiError } from "../../crds/client/api-error.ts";
import { configMaps } from "../../crds/client/built-in-resources.ts";
import type { ConfigMap } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import type { BuilderContext } from "./build-jobs.ts";

/** Goes up when the same inputs are to be built anew, because another version of this program builds them otherwise. */
const VERSION = 1;

/** Where the files of a build are from, as it is at this moment. */
export type BuildContext =
  | { readonly kind: "archive"; readonly sha256: string }
  | { readonly kind: "configMap"; readonly configMap: ConfigMap }
  /** The pod of the build fetches it. */
  | { readonly kind: "git" }
  | { readonly kind: "missing"; readonly message: string };

/** Finds the build context that a workload names, and the key of its build; a ConfigMap as the API server has it. */
export async function findBuildContext(
  workload: Workload,
  { cluster, config, builds: { registry } }: BuilderContext,
): Promise<{ context: BuildContext; key: string | undefined }> {
  const { namespace } = config;
  const { configMapRef, git } = workload.spec.image.context ?? {};
  if (configMapRef !== undefined) {
    const { name } = configMapRef;
    let configMap: ConfigMap | undefined;
    try {
      configMap = await cluster(configMaps).named(name).find();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
      return missing(`the operator may not read ConfigMaps: add manifests/components/builds (${error.message})`);
    }
    if (configMap === undefined) {
      return missing(
        `spec.image.context.configMapRef: there is no ConfigMap "${name}" in namespace "${namespace}": create it`,
      );
    }
    const key = buildKey(workload, { registry, context: `configmap:${configMapDigest(configMap)}` });
    return { context: { kind: "configMap", configMap }, key };
  }
  if (git !== undefined) {
    const place = JSON.stringify([git.url, git.ref ?? "HEAD", git.path ?? "."]);
    return { context: { kind: "git" }, key: buildKey(workload, { registry, context: `git:${place}` }) };
  }
  const sha256 = workload.metadata.annotations?.[annotation.buildContext];
  if (sha256 === undefined || !/^[0-9a-f]{64}$/.test(sha256)) {
    const { name } = workload.metadata;
    return missing(
      `there is no build context: upload one ("npm run workload -- build ${name} --context DIR"), or name one in spec.image.context`,
    );
  }
  return { context: { kind: "archive", sha256 }, key: buildKey(workload, { registry, context: `archive:${sha256}` }) };
}

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

function missing(message: string): { context: BuildContext; key: undefined } {
  return { context: { kind: "missing", message }, key: undefined };
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
