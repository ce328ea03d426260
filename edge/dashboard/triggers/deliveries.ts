import type { ApiTypes } from "../../api/openapi/schemas.ts";

type Answer = ApiTypes["Deliveries"];
export type Delivery = Answer["deliveries"][number];

/** What is known of a trigger's events from the edges that answered; each keeps its own. */
export interface KnownDeliveries {
  /** By edge, its last answer. */
  readonly answers: ReadonlyMap<string, Answer>;
}

export const noDeliveries: KnownDeliveries = { answers: new Map() };

/** Adds an answer; it takes the place of that edge's one before. */
export function withAnswer({ answers }: KnownDeliveries, answer: Answer): KnownDeliveries {
  return { answers: new Map([...answers, [answer.replica, answer]]) };
}

/** All that is known, the newest first. */
export function deliveriesOf({ answers }: KnownDeliveries): Delivery[] {
  return [...answers.values()].flatMap(({ deliveries }) => deliveries).sort((a, b) => (a.at < b.at ? 1 : -1));
}

/** How an outcome is to be looked at. */
export function resultLook(result: Delivery["result"]): "ok" | "warn" | "bad" {
  if (result === "answered") return "ok";
  return result === "failed" || result === "aborted" || result === "missed" ? "bad" : "warn";
}

/** For whom an event is, as far as the page can tell: the edge decides it. */
export function tenantWords(tenant: ApiTypes["TriggerSpec"]["tenant"], fields: unknown): string {
  if (tenant.static !== undefined) return `tenant ${tenant.static}`;
  let value: unknown = fields;
  for (const name of (tenant.from ?? "").split(".")) {
    value = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  }
  if (typeof value !== "string" && typeof value !== "number") return `the tenant that ${tenant.from} names`;
  return `tenant ${tenant.prefix ?? ""}${value}`;
}
