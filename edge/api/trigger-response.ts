import type { Trigger, TriggerSpec, TriggerStatus } from "../../crds/trigger.ts";

/** A trigger as the REST API shows it; `phase` is absent until the gateway has looked at it. */
export interface TriggerResponse {
  name: string;
  spec: TriggerSpec;
  status: Pick<TriggerStatus, "phase" | "detail">;
  /** ISO 8601. */
  createdAt: string;
}

/** Shows a trigger as the REST API does; what its adapter remembers is not for callers. */
export function triggerResponse({ metadata, spec, status }: Trigger): TriggerResponse {
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
