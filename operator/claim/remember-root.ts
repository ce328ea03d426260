import { workloads } from "../../crds/kinds.ts";
import type { OperatorContext } from "../context.ts";

/** Remembers on the workload that its image runs as root, so that its next pods are made without `runAsNonRoot`. */
export async function rememberRoot(workload: string, { client, config, informers }: OperatorContext): Promise<void> {
  const { namespace } = config;
  if (informers.workloads.store.get(`${namespace}/${workload}`)?.status?.runsAsRoot === true) return;
  const body = { status: { runsAsRoot: true } };
  informers.workloads.put(
    await client.patch(workloads, { namespace, name: workload }, { type: "merge", subresource: "status", body }),
  );
}
