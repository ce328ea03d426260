import { createHash } from "node:crypto";
import { ApiError } from "../../crds/client/api-error.ts";
import { configMaps } from "../../crds/client/built-in-resources.ts";
import type { ConfigMap } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import type { BuilderContext } from "./build-jobs.ts";

/** Increase it when a version of this program builds the same inputs in another way, so that they are built again. */
const VERSION = 1;

/** The present source of a build's files. */
export type BuildContext =
  | { readonly kind: "archive"; readonly sha256: string }
  | { readonly kind: "configMap"; readonly configMap: ConfigMap }
  /** The build's pod fetches it. */
  | { readonly kind: "git" }
  | { readonly kind: "missing"; readonly message: string };

/** Finds a workload's build context and the key of its build. Reads a ConfigMap from the API server. */
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
 * SHA-256 of all inputs of a workload's image, and of its registry: equal keys are the same build.
 *
 * It is not the digest of the image: BuildKit can build the same inputs to another digest.
 *
 * @param inputs.context identifies the build context, by the digest of its content or by its location
 * @param inputs.registry that stores the image: another registry does not have it
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

/** A digest of the files in a ConfigMap, independent of their order. */
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
