import type { Clock } from "../../../crds/client/clock.ts";
import type { Actor, Caller } from "../../access/actor.ts";
import { requireTenant, requireWorkload } from "../../access/authorize.ts";
import { anyKey } from "../../access/route-access.ts";
import type { Access } from "../../http/access.ts";
import { EVENTS_PROTOCOL } from "../../http/event-socket.ts";
import { requireHandshake } from "../../http/handshake.ts";
import { HttpError } from "../../http/http-error.ts";
import type { PageCheck } from "../../http/page-check.ts";
import type { RequestContext } from "../../http/router.ts";
import { untilCallerEnds } from "../../http/session.ts";
import type { ApiRoute } from "../api-route.ts";
import { reachOf } from "../authorize.ts";
import { nameSchema, tenantIdSchema } from "../openapi/schemas.ts";
import { type EventFilter, readEventFilter } from "./event-filter.ts";
import { type EventHub, MAX_CLIENTS } from "./event-hub.ts";
import { eventFamilies, eventTypes, familyOf, usualFamilies } from "./event-ring.ts";

const eventWord = `(?:${[...eventFamilies, ...eventTypes].join("|").replaceAll(".", "\\.")})`;

/**
 * `GET /ws`: the stream of events.
 *
 * @param options.checkPage throws if a page of another site made the request
 * @param options.requireKey whether it requires the key as other routes do (TENANCY_WS_REQUIRE_KEY) @default false
 * @param options.authenticate throws 401 if a request has no key; always applied to requests for more than the usual
 * families; undefined if no key is set. A socket that needs the key is closed when the caller's session or key ends
 */
export function eventsRoute(options: {
  events: EventHub;
  checkPage: PageCheck;
  requireKey?: boolean;
  authenticate?: Access["authenticate"];
  clock: Clock;
}): ApiRoute {
  const { events, checkPage, requireKey = false, authenticate, clock } = options;
  return {
    method: "GET",
    path: "/ws",
    summary: "Changes of instances, claims, workloads, pools and triggers as they happen",
    description:
      "A WebSocket of JSON messages `{id, type, time, object}`. `object` is an Instance with the service's own labels, a Claim without its `message`, or an OpenWorkload, OpenPool or OpenTrigger. Without `type` it sends changes of instances and claims; the other kinds require the key if one is set. It answers the text `ping` with a Pong. The server may be set to require the key: send it as the header, as the subprotocol `tenancy.bearer.<base64url of the key>` beside `tenancy.events`, or by a session, whose end closes the socket with 4401. A client that reconnects with `since` gets the missed messages, or one message of type `resync` if they are no longer stored: read the lists again then.",
    query: {
      tenant: { ...tenantIdSchema, description: "Only this tenant's." },
      workload: { ...nameSchema, description: "Only this workload's." },
      type: {
        type: "string",
        pattern: `^${eventWord}(?:,${eventWord})*$`,
        description: `Only these, by commas: ${[...eventFamilies, ...eventTypes].join(", ")}.`,
      },
      since: { type: "string", minLength: 1, description: "The id of the last received message." },
    },
    takes: ["upgrade", "sec-websocket-version", "sec-websocket-key"],
    status: 101,
    answer: "websocket",
    errors: [401, 403, 404, 426, 429, 503],
    public: !requireKey,
    access: anyKey,
    async handle(request, context) {
      const { upgrade } = context;
      checkPage(request);
      const accept = requireHandshake(request, { upgrade, protocols: [EVENTS_PROTOCOL] });
      const filter = readEventFilter(request);
      const { since } = request.query;
      if (since !== undefined && (typeof since !== "string" || since === "")) {
        throw new HttpError(400, "query.since: must be the id of one message");
      }
      const isMore = filter.types?.some((type) => !usualFamilies.includes(familyOf(type))) === true;
      const caller = request.caller ?? (await callerOf(request, { isRequired: isMore, authenticate, context }));
      if (caller !== undefined) authorizeEvents(caller.actor, { isMore, filter });
      const isStranger = authenticate !== undefined && caller === undefined;
      if (isStranger) checkPage(request, { isStranger });
      if (isStranger ? events.isFullForStrangers : events.isFull) {
        const most = isStranger ? `${MAX_CLIENTS / 2} clients without a key` : `${MAX_CLIENTS} clients`;
        throw new HttpError(503, `${most} are connected already; try again later`, {
          headers: { "retry-after": "10" },
        });
      }
      const { tenants, workloads } = caller?.actor ?? {};
      const client = events.client({ filter: { ...filter, tenants, workloads }, since, isStranger });
      if (caller === undefined) return accept(client);
      // What needs no key goes on without the session.
      const { actor } = caller;
      return accept(untilCallerEnds(client, isMore || requireKey ? caller : { actor }, clock));
    },
  };
}

/** Who sent a request; undefined for a stranger. A wrong key is ignored if none is required. */
async function callerOf(
  request: Request,
  {
    isRequired,
    authenticate,
    context,
  }: { isRequired: boolean; authenticate: Access["authenticate"]; context: RequestContext },
): Promise<Caller | undefined> {
  try {
    return await authenticate?.(request, context);
  } catch (error) {
    if (isRequired || !(error instanceof HttpError && error.status === 401)) throw error;
    return undefined;
  }
}

/** @throws HttpError 403 for kinds, and 404 for a tenant or workload, that the key does not reach */
function authorizeEvents(actor: Actor, { isMore, filter }: { isMore: boolean; filter: EventFilter }): void {
  if (isMore && (actor.tenants !== undefined || actor.workloads !== undefined))
    throw new HttpError(403, `this key reaches ${reachOf(actor)} only: ask for the types instance and claim`);
  if (filter.tenant !== undefined) requireTenant(actor, filter.tenant);
  if (filter.workload !== undefined) requireWorkload(actor, filter.workload);
}
