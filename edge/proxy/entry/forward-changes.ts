import { hostOnlyCookie, type RequestChanges, type ResponseChanges } from "../http/forward-head.ts";
import type { Address } from "./address.ts";
import { type Credentials, cookieName } from "./entry.ts";
import type { FrontDoor } from "./front-door.ts";
import { isKeyProtocol } from "./hidden-keys.ts";
import { takeToken } from "./token-parameter.ts";

/**
 * Would direct a browser elsewhere for a tenant's host, or delete the cookies of all hosts of the domain
 * (https://www.w3.org/TR/clear-site-data/#clear-cookies).
 */
const HOST_DROPS = new Set(["alt-svc", "clear-site-data"]);

/**
 * The fields of a response in the path form that reach the client: those that describe the body, and those for
 * programs. To a browser all tenants share that origin, and each year adds fields that ask for a password, store
 * something or follow a link for the whole origin (docs/decisions/front-door.md#the-path-form-is-dead-to-browsers).
 */
const PATH_PASSES = new Set([
  ...["content-type", "content-encoding", "content-language", "content-location", "content-disposition"],
  ...["content-range", "content-security-policy", "content-digest", "content-md5", "repr-digest", "digest"],
  ...["accept-ranges", "accept-patch", "accept-post", "age", "allow", "cache-control", "date", "etag", "expires"],
  ...["last-modified", "location", "pragma", "preference-applied", "retry-after", "server", "vary", "via", "warning"],
  ...["sec-websocket-accept", "sec-websocket-extensions", "sec-websocket-protocol"],
  ...["dav", "ms-author-via", "tus-resumable", "tus-version", "tus-extension", "tus-max-size"],
]);
const PATH_PASSES_FAMILY = /^(?:x|grpc|connect|docker|mcp|ratelimit|upload)-/;
/** Fields with the prefix `x-` that browsers interpret. */
const PATH_DROPS = new Set(["x-content-type-options", "x-dns-prefetch-control", "x-frame-options", "x-sourcemap"]);
const PATH_RESPONSE: ResponseChanges = {
  setCookie: () => undefined,
  drops: (name) => !(PATH_PASSES.has(name) || (PATH_PASSES_FAMILY.test(name) && !PATH_DROPS.has(name))),
  fields: [
    ["Content-Security-Policy", "sandbox"],
    ["X-Content-Type-Options", "nosniff"],
  ],
};

/** Makes a function that returns how a request is changed for the pod, and how its response is changed. */
export function createForwardChanges(): (found: {
  address: Address;
  credentials: Credentials;
  frontDoor: FrontDoor;
}) => { request: RequestChanges; response: ResponseChanges } {
  let hostResponse: ResponseChanges | undefined;

  return ({ address, credentials, frontDoor }) => {
    const { target, hidesAuthorization, hidesProtocols, hiddenFields } = credentials;
    const hidden = { hidesAuthorization, hidesProtocol: hidesProtocols ? isKeyProtocol : undefined, hiddenFields };
    if (address.form === "path") {
      const { prefix } = address;
      const request = { target, prefix, ...hidden, hidesCookies: true, referer: withoutToken };
      return { request, response: PATH_RESPONSE };
    }
    const cookie = cookieName(frontDoor);
    hostResponse ??= {
      setCookie: (value) => hostOnlyCookie(value, cookie),
      ownsHost: true,
      drops: (name) => HOST_DROPS.has(name),
    };
    const request = { target, ...hidden, hiddenCookie: cookie, referer: withoutToken };
    return { request, response: hostResponse };
  };
}

/** A page that was opened with a token in its URL, in a frame, reveals it in its requests. */
const withoutToken = (referer: string): string => takeToken(referer).target;
