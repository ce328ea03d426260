import { isAlreadyExists, isNotFound } from "../client/api-error.ts";
import { type Clock, systemClock } from "../client/clock.ts";
import type { ClusterClient } from "../client/cluster-client.ts";
import type { Condition } from "../kubernetes.ts";
import { defineResource } from "../resource.ts";
import { sleep, withTimeLimit } from "../waits.ts";
import { type CustomResourceDefinition, definitions } from "./definition.ts";

/** CustomResourceDefinition of apiextensions.k8s.io/v1. */
export const customResourceDefinitions = defineResource<
  CustomResourceDefinition & { status?: { conditions?: Condition[] } }
>({
  group: "apiextensions.k8s.io",
  version: "v1",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
});

/**
 * Creates or updates the definitions of the four kinds and waits until the API server serves them.
 *
 * Not by server-side apply: API servers before 1.23 then refuse the CEL rules, which they otherwise drop silently.
 *
 * @param options.timeoutMs for the whole call. @default 120000
 * @throws {Error} with the name of the kind that is not served in time
 */
export async function installDefinitions(
  client: ClusterClient,
  options: { timeoutMs?: number; signal?: AbortSignal; clock?: Clock } = {},
): Promise<void> {
  const { timeoutMs = 120_000, signal, clock = systemClock } = options;
  const limit = { what: "the installation", ms: timeoutMs, clock, signal };
  await Promise.all(
    definitions.map(async (definition) => {
      try {
        await withTimeLimit(limit, async (limited) => {
          await write(client, definition, limited);
          while (!(await isServed(client, definition, limited))) await sleep(50, { clock, signal: limited });
        });
      } catch (cause) {
        throw new Error(`Cannot install ${definition.metadata.name}: ${String(cause)}`, { cause });
      }
    }),
  );
}

async function write(client: ClusterClient, definition: CustomResourceDefinition, signal: AbortSignal): Promise<void> {
  try {
    await client.create(customResourceDefinitions, definition, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const { metadata, spec } = definition;
    const body = { metadata: { labels: metadata.labels }, spec };
    await client.patch(customResourceDefinitions, { name: metadata.name }, { type: "merge", body, signal });
  }
}

async function isServed(
  client: ClusterClient,
  definition: CustomResourceDefinition,
  signal: AbortSignal,
): Promise<boolean> {
  const { status } = await client.get(customResourceDefinitions, { name: definition.metadata.name }, { signal });
  const conditions = status?.conditions ?? [];
  if (!conditions.some((condition) => condition.type === "Established" && condition.status === "True")) return false;
  const { group, names, versions } = definition.spec;
  const kind = defineResource({ group, version: versions[0]?.name ?? "", plural: names.plural, kind: names.kind });
  try {
    await client.list(kind, { limit: 1, signal });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
