import { quote } from "../../../crds/quote.ts";
import { reaches, reachesWorkload } from "../../access/actor.ts";
import { HttpError } from "../../http/http-error.ts";
import { queryText, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { type EventType, eventFamilies, eventTypes, familyOf, type StoredEvent, usualFamilies } from "./event-ring.ts";

/** The events that a client wants; an undefined tenant or workload matches any. */
export interface EventFilter {
  readonly tenant: string | undefined;
  readonly workload: string | undefined;
  /** Those that the client's key reaches, see {@link reaches}; undefined for all. Events of no tenant are left out. */
  readonly tenants?: readonly string[] | undefined;
  /** The same of workloads. */
  readonly workloads?: readonly string[] | undefined;
  /** In the order of {@link eventTypes}; undefined means all types of the usual families. */
  readonly types: readonly EventType[] | undefined;
}

/**
 * Reads `tenant`, `workload` and `type` of a query; `type` is a list of types or families, separated by commas or
 * repeated.
 *
 * @throws HttpError 400 for a value that no event can have
 */
export function readEventFilter(request: RoutedRequest): EventFilter {
  return {
    tenant: queryText(request, "tenant", tenantIdRule),
    workload: queryText(request, "workload", workloadNameRule),
    types: typesOf(request),
  };
}

/** Whether a client with the filter gets the event. */
export function matches({ tenant, tenants, workload, workloads, types }: EventFilter, event: StoredEvent): boolean {
  return (
    (tenants === undefined || (event.tenant !== undefined && reaches({ tenants }, event.tenant))) &&
    reachesWorkload({ workloads }, event.workload) &&
    (tenant === undefined || tenant === event.tenant) &&
    (workload === undefined || workload === event.workload) &&
    (types === undefined ? usualFamilies.includes(familyOf(event.type)) : types.includes(event.type))
  );
}

function typesOf({ query }: RoutedRequest): readonly EventType[] | undefined {
  if (query.type === undefined) return undefined;
  const words = [query.type].flat().flatMap((text) => text.split(","));
  const unknown = words.find((word) => !eventTypes.some((type) => isNamed(type, word)));
  if (unknown !== undefined) {
    throw new HttpError(
      400,
      `query.type: ${quote(unknown)} is not an event type; known are ${[...eventFamilies, ...eventTypes].join(", ")}`,
    );
  }
  return eventTypes.filter((type) => words.some((word) => isNamed(type, word)));
}

function isNamed(type: EventType, word: string): boolean {
  return type === word || familyOf(type) === word;
}
