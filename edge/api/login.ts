import type { Login } from "../access/oidc/login.ts";
import type { ClientAddress } from "../http/client-address.ts";
import { queryText } from "../http/parameters.ts";
import type { Route, RoutedRequest } from "../http/router.ts";
import type { Sessions } from "../http/session.ts";

export const LOGIN_PATH = "/api/v1/session/oidc";
export const CALLBACK_PATH = `${LOGIN_PATH}/callback`;
/** Only to resolve paths; never sent. */
const BASE = "http://dashboard.invalid";
const pagePath = {
  accepts: (path: string) => normalPage(path) !== undefined,
  says: "must be the path of a page of the dashboard, such as /dashboard/claims",
};

/**
 * `GET /api/v1/session/oidc` and its callback: the login of a person in a browser. They are pages for browsers and no
 * part of the API's document.
 */
export function loginRoutes({
  login,
  sessions,
  checkPage,
  addressOf,
}: {
  login: Login;
  sessions: Sessions;
  addressOf: ClientAddress;
  checkPage: (request: Request) => void;
}): Route[] {
  return [
    {
      method: "GET",
      path: LOGIN_PATH,
      public: true,
      query: { to: {} },
      async handle(request) {
        checkPage(request);
        const to = normalPage(queryText(request, "to", pagePath) ?? "/") ?? "/";
        const { location, cookie } = await login.start(to);
        return redirect(location, [cookie]);
      },
    },
    {
      method: "GET",
      path: CALLBACK_PATH,
      public: true,
      act: "change",
      query: "any",
      async handle(request: RoutedRequest, { peerOf, clientGone = request.signal }) {
        checkPage(request);
        const address = addressOf(request, peerOf?.(request));
        const { grant, to, cookie } = await login.finish(request, { address, clientGone });
        const actor = { ...grant, ended: new AbortController().signal };
        request.audit?.by(actor);
        const session = await sessions.issue(request, actor, { isSecure: login.isSecure });
        return redirect(to, [cookie, session.cookie]);
      },
    },
  ];
}

/** @returns what a browser would make of the path, without `..`; undefined for an address of anything else */
function normalPage(path: string): string | undefined {
  if (!path.startsWith("/") || path.length > 2000 || !URL.canParse(path, BASE)) return undefined;
  const { origin, pathname, search, hash } = new URL(path, BASE);
  const isPage = pathname === "/" || pathname === "/dashboard" || pathname.startsWith("/dashboard/");
  return origin === BASE && isPage ? pathname + search + hash : undefined;
}

function redirect(location: string, cookies: readonly string[]): Response {
  const headers = new Headers({ location, "cache-control": "no-store", "referrer-policy": "no-referrer" });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(null, { status: 303, headers });
}
