import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { stringify } from "yaml";

const manifests = new URL("../../../manifests", import.meta.url).pathname;

/**
 * Writes a kustomization such as users make of the base and components; kustomize takes only paths that are relative.
 */
export async function writeOverlay(options: {
  namespace?: string;
  components: string[];
  /** Kinds to leave out. */
  without?: string[];
  /** Files with patches, below its folder. */
  patchFiles?: string[];
}): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(process.env.TMPDIR ?? "/tmp", "tenancy-overlay-"));
  const from = (...parts: string[]): string => relative(path, join(manifests, ...parts));
  const kustomization = {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    ...(options.namespace !== undefined && { namespace: options.namespace }),
    resources: [from("base")],
    components: options.components.map((name) => from("components", name)),
    patches: [
      ...(options.without ?? []).map((kind) => ({
        target: { kind },
        patch: stringify({ $patch: "delete", kind, metadata: { name: "any" } }),
      })),
      ...(options.patchFiles ?? []).map((file) => ({ path: file })),
    ],
  };
  await writeFile(join(path, "kustomization.yaml"), stringify(kustomization));
  return { path, remove: () => rm(path, { recursive: true }) };
}
