import { HttpError } from "../http-error.ts";
import type { Route } from "../route.ts";
import { readEventFilter } from "./event-filter.ts";
import type { EventHub } from "./event-hub.ts";

const MAX_CLIENTS = 10_000;
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/**
 * `GET /ws`: the stream of events (spec.md, sections 4.6 and 6). It asks for no key (spec.md, section 5).
 *
 * @param options.checkPage throws where the request is one that a page of another site made
 */
export function eventsRoute({ events, checkPage }: { events: EventHub; checkPage: (request: Request) => void }): Route {
  return {
    method: "GET",
    path: "/ws",
    public: true,
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
      const filter = readEventFilter(request);
      const { since } = query;
      if (since !== undefined && (typeof since !== "string" || since === "")) {
        throw new HttpError(400, "query.since: must be the id of one message");
      }
      if (events.size >= MAX_CLIENTS) {
        throw new HttpError(503, `${MAX_CLIENTS} clients listen already; try again later`, {
          headers: { "retry-after": "10" },
        });
      }
      return upgrade(events.client({ filter, since }));
    },
  };
}
