import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { namespaces } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { Condition, KubernetesObject } from "../../crds/kubernetes.ts";
import { defineResource } from "../../crds/resource.ts";

interface CustomResourceDefinition extends KubernetesObject {
  status?: { conditions?: Condition[] };
}

const definitions = defineResource<CustomResourceDefinition>({
  group: "apiextensions.k8s.io",
  version: "v1",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
});
const MANAGER = "tenancy-start";
const LIMIT_MS = 30_000;

/**
 * Applies the namespace and the four kinds, and waits until the API server serves them.
 *
 * @throws Error when they are not served within 30 s
 */
export async function installKinds(options: {
  client: ClusterClient;
  namespace: string;
  /** Folder of the generated YAML files. */
  folder: string;
  signal: AbortSignal;
}): Promise<void> {
  const { client, namespace, folder, signal } = options;
  const object = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
  await client.apply(namespaces, object, { fieldManager: MANAGER, force: true, signal });
  const names = await Promise.all(
    readdirSync(folder)
      .filter((file) => file.endsWith(".yaml"))
      .map(async (file) => {
        const definition: CustomResourceDefinition = parse(readFileSync(join(folder, file), "utf8"));
        await client.apply(definitions, definition, { fieldManager: MANAGER, force: true, signal });
        return definition.metadata.name;
      }),
  );
  await Promise.all(names.map((name) => untilServed(name)));

  async function untilServed(name: string): Promise<void> {
    const limit = Date.now() + LIMIT_MS;
    for (;;) {
      const { status } = await client.get(definitions, { name }, { signal });
      if (status?.conditions?.some(({ type, status }) => type === "Established" && status === "True")) return;
      if (Date.now() > limit)
        throw new Error(
          `The API server does not serve ${name} after ${LIMIT_MS / 1000} s: kubectl describe crd ${name}`,
        );
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
