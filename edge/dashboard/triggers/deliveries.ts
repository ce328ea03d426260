import type { ApiTypes } from "../../api/openapi/schemas.ts";

type Answer = ApiTypes["Deliveries"];
export type Delivery = Answer["deliveries"][number];

/** The known events of a trigger; each edge replica keeps its own. */
export interface KnownDeliveries {
  /** By edge: its last response. */
  readonly answers: ReadonlyMap<string, Answer>;
}

export const noDeliveries: KnownDeliveries = { answers: new Map() };

/** Adds a response; it replaces the previous one of that edge. */
export function withAnswer({ answers }: KnownDeliveries, answer: Answer): KnownDeliveries {
  return { answers: new Map([...answers, [answer.replica, answer]]) };
}

/** All known deliveries, newest first. */
export function deliveriesOf({ answers }: KnownDeliveries): Delivery[] {
  return [...answers.values()].flatMap(({ deliveries }) => deliveries).sort((a, b) => (a.at < b.at ? 1 : -1));
}

/** Colour of a result. */
export function resultLook(result: Delivery["result"]): "ok" | "warn" | "bad" {
  if (result === "answered") return "ok";
  return result === "failed" || result === "aborted" || result === "missed" ? "bad" : "warn";
}

/** The tenant of an event, as far as the page can know: the edge decides it. */
export function tenantWords(tenant: ApiTypes["TriggerSpec"]["tenant"], fields: unknown): string {
  if (tenant.static !== undefined) return `tenant ${tenant.static}`;
  let value: unknown = fields;
  for (const name of (tenant.from ?? "").split(".")) {
    value = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  }
  if (typeof value !== "string" && typeof value !== "number") return `the tenant named by ${tenant.from}`;
  return `tenant ${tenant.prefix ?? ""}${value}`;
}
