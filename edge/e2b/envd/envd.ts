import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import type { Authorize } from "../../access/authorize.ts";
import type { Attachments } from "../../api/inside/attachments.ts";
import { createHandler, type Handler, pathOf } from "../../http/handler.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/response.ts";
import { insideCodeOf } from "../connect/connect-error.ts";
import { failedCall } from "../connect/connect-route.ts";
import { tenantPlace } from "../tenant-place.ts";
import { createEnvdCheck, type EnvdAccess } from "./authenticate.ts";
import { fileRoutes } from "./file-routes.ts";
import { filesystemCalls } from "./filesystem-calls.ts";
import { processCalls } from "./process-calls.ts";
import { createFindSandbox, nameSandbox, notRunning } from "./sandbox.ts";
import { statusRoutes } from "./status-routes.ts";
import { watchCalls } from "./watch-calls.ts";

const PORT = "49983";

type InsideServices = Parameters<typeof tenantPlace>[0] & { readonly attachments: Attachments };
type HandlerOptions = Parameters<typeof createHandler>[0];

/** What a handler of envd is made of: that of the API's handler, but for the routes and the access. */
export interface EnvdOptions
  extends Pick<HandlerOptions, "rates" | "cors" | "audit" | "tracer" | "instance" | "isLeaving">,
    Omit<EnvdAccess, "clock"> {
  readonly clock: Clock;
  readonly log: Log;
  /** Called once for each response; `route` begins with `envd`. */
  readonly onAnswered?: HandlerOptions["onAnswered"] | undefined;
  readonly services: InsideServices;
  readonly authorize: Authorize;
}

/**
 * Creates the handler of requests to envd, the program in each sandbox of E2B: they name the sandbox in the header
 * `E2b-Sandbox-Id`.
 *
 * Follows https://github.com/e2b-dev/infra/tree/main/packages/envd/spec
 */
export function createEnvd({ services, authorize, onAnswered, ...options }: EnvdOptions): Handler {
  const find = createFindSandbox(tenantPlace(services));
  const { clock, log } = options;
  const check = createEnvdCheck(options);
  return createHandler({
    ...options,
    routes: [
      ...processCalls(find, { attachments: services.attachments, clock, log }),
      ...filesystemCalls(find, { clock }),
      ...watchCalls(find, { clock, log }),
      ...fileRoutes(find),
      ...statusRoutes(find, services),
    ],
    async authenticate(request, context = {}) {
      const caller = await check(request, context);
      const port = request.headers.get("e2b-sandbox-port") ?? PORT;
      if (port !== PORT)
        throw new HttpError(502, `port ${PORT} is served here only: other ports are reached at the front door`, {
          expected: true,
        });
      return caller;
    },
    async authorize(actor, request, access) {
      if (!nameSandbox(request)) throw notRunning(request);
      return await authorize(actor, request, access);
    },
    // Its own count of requests, so its own ids.
    instance: `${options.instance}v`,
    respondToError: (error, request) => (isCall(request) ? failedCall(error, request) : plainError(error)),
    onAnswered: (answered) => onAnswered?.({ ...answered, route: `envd ${answered.route}` }),
  });
}

function isCall({ url }: Request): boolean {
  return /^\/[a-z]+\.[A-Z]\w*\//.test(pathOf(url));
}

/** Errors of files whose status says more to E2B's SDKs than that of the API. */
const statuses: ReadonlyMap<string, number> = new Map([
  ["isFolder", 400],
  ["notFolder", 400],
  ["notFile", 400],
  ["denied", 403],
  ["readOnly", 403],
]);

function plainError(error: HttpError): Response {
  const { message, headers } = error;
  const status = statuses.get(insideCodeOf(error) ?? "") ?? (error.status === 410 ? 502 : error.status);
  return jsonResponse({ code: status, message }, { status, headers });
}
