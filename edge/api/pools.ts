import type { Cluster } from "../../crds/client/cluster.ts";
import { pools } from "../../crds/kinds.ts";
import type { Pool, PoolSpec, PoolStatus } from "../../crds/pool.ts";
import { poolProblems } from "../../crds/schema/validate-pool.ts";
import { poolNameRule } from "../http/parameters.ts";
import type { ApiRoute } from "./api-route.ts";
import { deleteRoute, type SpecKind, specRoutes } from "./spec-routes.ts";

/** The routes of pools. */
export function poolRoutes(options: { cluster: Cluster; namespace: string }): ApiRoute[] {
  const kind: SpecKind<Pool> = {
    resource: pools,
    ...{ noun: "pool", path: "/api/v1/pools", parameter: "name", nameRule: poolNameRule, schema: "Pool" },
    onReplaced: "A smaller size deletes warm pods; claimed pods stay.",
    problemsOf: (spec) => poolProblems(spec),
    show: poolResponse,
  };
  return [
    ...specRoutes(kind, options),
    deleteRoute(kind, options, { description: "Its warm pods are deleted with it; claimed pods stay." }),
  ];
}

/** A pool as shown by the REST API; `reason` and `message` describe a problem. */
interface PoolResponse {
  name: string;
  spec: PoolSpec;
  status: Pick<PoolStatus, "phase" | "ready" | "warming" | "desired" | "scaling" | "reason" | "message">;
  /** ISO 8601. */
  createdAt: string;
}

function poolResponse({ metadata, spec, status }: Pool): PoolResponse {
  const { phase = "Filling", ready = 0, warming = 0, desired, scaling, reason, message } = status ?? {};
  return {
    name: metadata.name,
    spec,
    status: {
      ...{ phase, ready, warming },
      ...(desired !== undefined && { desired }),
      ...(scaling !== undefined && { scaling }),
      ...(reason !== undefined && { reason }),
      ...(message !== undefined && { message }),
    },
    createdAt: metadata.creationTimestamp ?? "",
  };
}
