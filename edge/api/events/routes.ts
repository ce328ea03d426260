import type { Clock } from "../../../crds/client/clock.ts";
import { carriesKey, KEY_PROTOCOL } from "../../http/api-key.ts";
import { EVENTS_PROTOCOL, offeredProtocols } from "../../http/event-socket.ts";
import { HttpError } from "../../http/http-error.ts";
import type { PageCheck } from "../../http/page-check.ts";
import { type Sessions, untilSessionEnds } from "../../http/session.ts";
import type { ApiRoute } from "../api-route.ts";
import { nameSchema, tenantIdSchema } from "../openapi/schemas.ts";
import { readEventFilter } from "./event-filter.ts";
import { type EventHub, MAX_CLIENTS } from "./event-hub.ts";
import { eventFamilies, eventTypes, familyOf, usualFamilies } from "./event-ring.ts";

const eventWord = `(?:${[...eventFamilies, ...eventTypes].join("|").replaceAll(".", "\\.")})`;
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/**
 * `GET /ws`: the stream of events.
 *
 * @param options.checkPage throws where the request is one that a page of another site made
 * @param options.requireKey whether it asks for the key as other routes do (TENANCY_WS_REQUIRE_KEY) @default false
 * @param options.authenticate throws 401 where a request has no key, which those that name more than the usual families
 *   always have to; undefined where no key is set
 * @param options.sessions what a socket can be opened with then; it is closed when its session ends
 */
export function eventsRoute(options: {
  events: EventHub;
  checkPage: PageCheck;
  requireKey?: boolean;
  authenticate?: ((request: Request) => void | Promise<void>) | undefined;
  sessions?: Pick<Sessions, "endOf"> | undefined;
  clock: Clock;
}): ApiRoute {
  const { events, checkPage, requireKey = false, authenticate, sessions, clock } = options;
  return {
    method: "GET",
    path: "/ws",
    summary: "Changes of instances, claims, workloads, pools and triggers, as they happen",
    description:
      "A WebSocket of JSON messages `{id, type, time, object}`; `object` is an Instance with the service's own labels, a Claim without its `message`, or of a workload, a pool or a trigger what OpenWorkload, OpenPool and OpenTrigger show. Without `type` it tells of instances and claims; the others ask for the key where one is set. To the text `ping` it answers with a Pong. It may be set to ask for the key, which then comes as the header, as the subprotocol `tenancy.bearer.<base64url of the key>` beside `tenancy.events`, or by a session, whose end closes the socket with 4401. A client that connects again with `since` gets what it missed, or one message of type `resync` where that is not kept: read the lists anew then.",
    query: {
      tenant: { ...tenantIdSchema, description: "Only this tenant's." },
      workload: { ...nameSchema, description: "Only this workload's." },
      type: {
        type: "string",
        pattern: `^${eventWord}(?:,${eventWord})*$`,
        description: `Only these, by commas: ${[...eventFamilies, ...eventTypes].join(", ")}.`,
      },
      since: { type: "string", minLength: 1, description: "The id of the last message that was seen." },
    },
    takes: ["upgrade", "sec-websocket-version", "sec-websocket-key"],
    status: 101,
    answer: "websocket",
    errors: [401, 403, 426, 503],
    public: !requireKey,
    async handle(request, { upgrade }) {
      checkPage(request);
      const { headers, query } = request;
      if (headers.get("upgrade")?.toLowerCase() !== "websocket" || upgrade === undefined) {
        throw new HttpError(426, "this is a WebSocket: connect to it with a ws:// address", {
          headers: { upgrade: "websocket", connection: "Upgrade" },
        });
      }
      if (headers.get("sec-websocket-version") !== "13") {
        throw new HttpError(426, "sec-websocket-version: must be 13", { headers: { "sec-websocket-version": "13" } });
      }
      if (!KEY.test(headers.get("sec-websocket-key") ?? "")) {
        throw new HttpError(400, "sec-websocket-key: must be 16 bytes in base64");
      }
      const offered = offeredProtocols(request);
      if (offered.some((word) => word.startsWith(KEY_PROTOCOL)) && !offered.includes(EVENTS_PROTOCOL)) {
        throw new HttpError(
          400,
          `sec-websocket-protocol: offer ${EVENTS_PROTOCOL} too, which is the one that is chosen`,
        );
      }
      const filter = readEventFilter(request);
      const { since } = query;
      if (since !== undefined && (typeof since !== "string" || since === "")) {
        throw new HttpError(400, "query.since: must be the id of one message");
      }
      const isMore = filter.types?.some((type) => !usualFamilies.includes(familyOf(type))) === true;
      if (isMore && !requireKey) await authenticate?.(request);
      const isBySession = (isMore || requireKey) && authenticate !== undefined && !carriesKey(request);
      const endsAt = isBySession ? await sessions?.endOf(request) : undefined;
      if (isBySession && endsAt === undefined) throw new HttpError(401, "the session has ended");
      const isStranger =
        authenticate !== undefined && !isMore && !requireKey && !(await isKnown(request, authenticate));
      if (isStranger) checkPage(request, { isStranger });
      if (isStranger ? events.isFullForStrangers : events.isFull) {
        const most = isStranger ? `${MAX_CLIENTS / 2} clients without a key` : `${MAX_CLIENTS} clients`;
        throw new HttpError(503, `${most} are connected already; try again later`, {
          headers: { "retry-after": "10" },
        });
      }
      const client = events.client({ filter, since, isStranger });
      return upgrade(endsAt === undefined ? client : untilSessionEnds(client, endsAt, clock));
    },
  };
}

/** Whether the request has the key or a session; one that is wrong counts for nothing where none is asked for. */
async function isKnown(request: Request, authenticate: (request: Request) => void | Promise<void>): Promise<boolean> {
  try {
    await authenticate(request);
    return true;
  } catch (error) {
    if (error instanceof HttpError) return false;
    throw error;
  }
}
