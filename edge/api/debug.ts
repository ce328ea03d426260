import {
  configMaps,
  networkPolicies,
  persistentVolumeClaims,
  pods,
  services,
} from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import { claims, pools, triggers, workloads } from "../../crds/kinds.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import type { Resource } from "../../crds/resource.ts";
import { adminOnly } from "../access/route-access.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";

/** What the dump lists, by key. Secrets are not included, and must never be. */
const dumped: Readonly<Record<string, Resource<KubernetesObject>>> = {
  pods,
  services,
  configMaps,
  persistentVolumeClaims,
  networkPolicies,
  workloads,
  pools,
  claims,
  triggers,
};

/** `GET /api/v1/debug/resources`: everything in the namespace as the cluster holds it now. */
export function debugRoute({ cluster }: { cluster: Cluster }): ApiRoute {
  return {
    method: "GET",
    path: "/api/v1/debug/resources",
    access: adminOnly,
    summary: "Everything in the namespace, as the cluster holds it",
    description: "Never Secrets.",
    answer: {
      type: "object",
      description: "Kubernetes objects, by kind.",
      required: [
        "pods",
        "services",
        "configMaps",
        "persistentVolumeClaims",
        "networkPolicies",
        "workloads",
        "pools",
        "claims",
        "triggers",
      ],
      additionalProperties: { type: "array", items: { type: "object", additionalProperties: {} } },
    },
    errors: [503],
    async handle() {
      const dump: Record<string, KubernetesObject[]> = {};
      // One after the other: the dump of a large namespace may be slow, claims may not.
      for (const [key, resource] of Object.entries(dumped)) dump[key] = (await cluster(resource).list()).items;
      return jsonResponse(dump);
    },
  };
}
