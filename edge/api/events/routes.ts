import { KEY_PROTOCOL } from "../../http/api-key.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Route } from "../../http/router.ts";
import { EVENTS_PROTOCOL, offeredProtocols } from "../../serve/event-socket.ts";
import { readEventFilter } from "./event-filter.ts";
import { type EventHub, MAX_CLIENTS } from "./event-hub.ts";

const KEY = /^[+/0-9A-Za-z]{22}==$/;

/**
 * `GET /ws`: the stream of events.
 *
 * @param options.checkPage throws where the request is one that a page of another site made
 * @param options.requireKey whether it asks for the key as other routes do (TENANCY_WS_REQUIRE_KEY) @default false
 */
export function eventsRoute(options: {
  events: EventHub;
  checkPage: (request: Request) => void;
  requireKey?: boolean;
}): Route {
  const { events, checkPage, requireKey = false } = options;
  return {
    method: "GET",
    path: "/ws",
    query: ["tenant", "workload", "type", "since"],
    public: !requireKey,
    handle(request, { upgrade }) {
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
      if (events.isFull) {
        throw new HttpError(503, `${MAX_CLIENTS} clients are connected already; try again later`, {
          headers: { "retry-after": "10" },
        });
      }
      return upgrade(events.client({ filter, since }));
    },
  };
}
