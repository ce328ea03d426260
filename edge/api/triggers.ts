import type { Cluster } from "../../crds/client/cluster.ts";
import { triggers } from "../../crds/kinds.ts";
import { triggerProblems } from "../../crds/schema/validate-trigger.ts";
import type { Trigger, TriggerSpec, TriggerStatus } from "../../crds/trigger.ts";
import { triggerNameRule } from "../http/parameters.ts";
import type { ApiRoute } from "./api-route.ts";
import { deleteRoute, type SpecKind, specRoutes } from "./spec-routes.ts";

const kind: SpecKind<Trigger> = {
  resource: triggers,
  ...{ noun: "trigger", path: "/api/v1/triggers", parameter: "id", nameRule: triggerNameRule, schema: "Trigger" },
  onReplaced: "Events in progress finish under the old spec.",
  problemsOf: triggerProblems,
  show: triggerResponse,
};

/** The routes of triggers. */
export function triggerRoutes(options: { cluster: Cluster; namespace: string }): ApiRoute[] {
  return [...specRoutes(kind, options), deleteRoute(kind, options)];
}

/** A trigger as shown by the REST API; `phase` is absent until the gateway has reconciled it. */
interface TriggerResponse {
  name: string;
  spec: TriggerSpec;
  status: Pick<TriggerStatus, "phase" | "detail">;
  /** ISO 8601. */
  createdAt: string;
}

/** Shows a trigger as the REST API does, without the stored state of its adapter. */
function triggerResponse({ metadata, spec, status }: Trigger): TriggerResponse {
  return {
    name: metadata.name,
    spec,
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(status?.detail !== undefined && { detail: status.detail }),
    },
    createdAt: metadata.creationTimestamp ?? "",
  };
}
