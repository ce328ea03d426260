import { hasArchive } from "../api/snapshots/store.ts";
import { withApiKeyHeader } from "../http/api-key.ts";
import { createHandler, type Handler, pathOf } from "../http/handler.ts";
import { jsonResponse } from "../http/response.ts";
import type { ControlServices } from "./control/control-services.ts";
import { controlRoutes } from "./control/routes.ts";
import { authorizeSandbox } from "./control/sandbox-access.ts";

type HandlerOptions = Parameters<typeof createHandler>[0];

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
    ...(authenticate !== undefined && { authenticate: withApiKeyHeader(authenticate) }),
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
