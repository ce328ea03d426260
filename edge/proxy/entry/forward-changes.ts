import { hostOnlyCookie, type RequestChanges, type ResponseChanges } from "../http/forward-head.ts";
import type { Address } from "./address.ts";
import { type Credentials, cookieName } from "./entry.ts";
import type { FrontDoor } from "./front-door.ts";
import { takeToken } from "./token-parameter.ts";

/**
 * Would have a browser ask elsewhere for a tenant's host, or delete the cookies of all hosts of the domain
 * (https://www.w3.org/TR/clear-site-data/#clear-cookies).
 */
const HOST_DROPS = new Set(["alt-svc", "clear-site-data"]);
/** On an origin that all tenants share, what a browser would keep for all of it. */
const PATH_DROPS = new Set([
  "alt-svc",
  "clear-site-data",
  "nel",
  "report-to",
  "reporting-endpoints",
  "service-worker-allowed",
  "strict-transport-security",
  "x-content-type-options",
]);
const PATH_RESPONSE: ResponseChanges = {
  setCookie: () => undefined,
  drops: PATH_DROPS,
  fields: [
    ["Content-Security-Policy", "sandbox"],
    ["X-Content-Type-Options", "nosniff"],
  ],
};

/** Makes what says how a request is changed on its way to the pod, and the response on its way back. */
export function createForwardChanges(): (found: {
  address: Address;
  credentials: Credentials;
  frontDoor: FrontDoor;
}) => { request: RequestChanges; response: ResponseChanges } {
  let hostResponse: ResponseChanges | undefined;

  return ({ address, credentials, frontDoor }) => {
    const { target, hidesAuthorization } = credentials;
    if (address.form === "path") {
      const { prefix } = address;
      const request = { target, prefix, hidesAuthorization, hidesCookies: true, referer: withoutToken };
      return { request, response: PATH_RESPONSE };
    }
    const cookie = cookieName(frontDoor);
    hostResponse ??= { setCookie: (value) => hostOnlyCookie(value, cookie), ownsHost: true, drops: HOST_DROPS };
    const request = { target, hidesAuthorization, hiddenCookie: cookie, referer: withoutToken };
    return { request, response: hostResponse };
  };
}

/** A page that was opened with a token in its address, in a frame, shows it in what it asks for. */
const withoutToken = (referer: string): string => takeToken(referer).target;
