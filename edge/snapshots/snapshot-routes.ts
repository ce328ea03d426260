import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { jsonResponse } from "../json-response.ts";
import { pathParam } from "../path-param.ts";
import type { Route } from "../route.ts";
import { workloadNameRule } from "../workload-name-rule.ts";
import { readWorkload } from "../workloads/read-workload.ts";

/** `GET /api/v1/snapshots` and `GET /api/v1/workloads/{name}/snapshots` (spec.md, sections 4.2 and 4.3); none are recorded yet. */
export function snapshotRoutes(options: { client: ClusterClient; namespace: string }): Route[] {
  return [
    { method: "GET", path: "/api/v1/snapshots", handle: () => jsonResponse([]) },
    {
      method: "GET",
      path: "/api/v1/workloads/:name/snapshots",
      async handle(request) {
        await readWorkload(pathParam(request, "name", workloadNameRule), options);
        return jsonResponse([]);
      },
    },
  ];
}
