import { hasArchive } from "../api/snapshots/store.ts";
import { createHandler, type Handler, pathOf } from "../http/handler.ts";
import { HttpError } from "../http/http-error.ts";
import { jsonResponse } from "../http/response.ts";
import type { ControlServices } from "./control/control-services.ts";
import { controlRoutes } from "./control/routes.ts";
import { authorizeSandbox } from "./control/sandbox-access.ts";

type HandlerOptions = Parameters<typeof createHandler>[0];
type Authenticate = NonNullable<HandlerOptions["authenticate"]>;

/**
 * Serves E2B's SDKs beside the REST API: their calls on sandboxes below `/e2b`, and what they do in a sandbox by the
 * header `E2b-Sandbox-Id`, whatever the path.
 *
 * @param api answers all other requests
 * @param options of `api`
 * @param options.envd answers what is done in sandboxes. @default 501
 */
export function withE2b(
  api: Handler,
  { envd = notServed, services, ...options }: Omit<HandlerOptions, "routes" | "webhooks"> & E2bOptions,
): Handler {
  const { authenticate, rates } = options;
  const answer = createHandler({
    ...options,
    routes: controlRoutes({
      ...{ ...services, rates },
      hasArchive: (key, clientGone) => hasArchive(key, services, clientGone),
    }),
    ...(authenticate !== undefined && { authenticate: withApiKey(authenticate) }),
    authorize: authorizeSandbox,
    respondToError: ({ status, message, headers }) => jsonResponse({ code: status, message }, { status, headers }),
    // Its own count of requests, so its own ids.
    instance: `${options.instance}e`,
  });
  return (request, context) => {
    if (request.headers.has("e2b-sandbox-id")) return envd(request, context);
    return (isBelow(pathOf(request.url)) ? answer : api)(request, context);
  };
}

const notServed: Handler = async () =>
  jsonResponse({ code: 501, message: "what is in a sandbox is not served here" }, { status: 501 });

interface E2bOptions {
  readonly envd?: Handler | undefined;
  readonly services: ControlServices;
}

function isBelow(path: string): boolean {
  return path === "/e2b" || path.startsWith("/e2b/");
}

/** The SDKs send a key as `X-API-KEY`, which stands for `Authorization: Bearer`. */
function withApiKey(authenticate: Authenticate): Authenticate {
  return (request, context = {}) => {
    const key = request.headers.get("x-api-key");
    if (key === null) return authenticate(request, context);
    if (!/^\S+$/.test(key)) throw new HttpError(401, "unreadable X-API-KEY header: send one key");
    const headers = new Headers(request.headers);
    headers.set("authorization", `Bearer ${key}`);
    const keyed = Object.create(request, { headers: { value: headers } }) as Request;
    return authenticate(keyed, { ...context, peerOf: () => context.peerOf?.(request) });
  };
}
