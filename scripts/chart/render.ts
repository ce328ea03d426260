import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseAllDocuments, stringify } from "yaml";
import { findKubectl } from "../cluster/kubernetes/kubectl.ts";
import { runCommand } from "../cluster/process/run-command.ts";

/** An object that kustomize renders. */
export interface Rendered {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; annotations?: Record<string, string> };
}

/** A kustomization such as users write. */
export interface Kustomization {
  /** Folders below `manifests`. */
  resources: readonly string[];
  /** Folders below `manifests/components`. */
  components: readonly string[];
  [field: string]: unknown;
}

/** The objects of a kustomization, as `kubectl kustomize` prints them. */
export async function render(root: string, kustomization: Kustomization): Promise<Rendered[]> {
  const folder = await mkdtemp(join(tmpdir(), "tenancy-kustomize-"));
  try {
    // Kustomize accepts only relative paths.
    const from = (...parts: string[]): string => relative(folder, join(root, "manifests", ...parts));
    const { resources, components, ...rest } = kustomization;
    const text = stringify({
      ...{ apiVersion: "kustomize.config.k8s.io/v1beta1", kind: "Kustomization" },
      resources: resources.map((name) => from(name)),
      components: components.map((name) => from("components", name)),
      ...rest,
    });
    await writeFile(join(folder, "kustomization.yaml"), text);
    const printed = await runCommand(await findKubectl(), ["kustomize", folder]);
    return parseAllDocuments(printed).map((document) => withoutNamespace(document.toJS() as Rendered));
  } finally {
    await rm(folder, { recursive: true });
  }
}

const OF_THE_CLUSTER =
  /^(Namespace|CustomResourceDefinition|ValidatingAdmissionPolicy(Binding)?|PriorityClass|FlowSchema|PriorityLevelConfiguration)$/;

/** Removes the namespace that kustomize adds to cluster-scoped objects of kinds that it does not know. */
function withoutNamespace(object: Rendered): Rendered {
  if (OF_THE_CLUSTER.test(object.kind)) delete object.metadata.namespace;
  return object;
}

/** Identifies an object of a rendering. */
export function keyOf({ apiVersion, kind, metadata }: Rendered): string {
  return [apiVersion, kind, metadata.namespace ?? "", metadata.name].join(" ");
}
