import { type HostTarget, hostLabel } from "../../../crds/host-name.ts";
import type { Exposure } from "../../../crds/network.ts";
import { type Actor, reaches, reachesWorkload } from "../../access/actor.ts";
import type { Keys } from "../../access/key-store.ts";
import { namedUse } from "../../access/route-access.ts";
import type { ReadAccessToken } from "../../e2b/access-token.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Field, RequestHead } from "../http/message-head.ts";
import { type Address, nameOf } from "./address.ts";
import type { FrontDoor } from "./front-door.ts";
import { authorizesByKey, isAccessTokenText, isApiKeyField, isKeyProtocol } from "./hidden-keys.ts";
import type { LinkTokens, SignedGrant } from "./link-token.ts";
import { SANDBOX_FIELDS } from "./sandbox-address.ts";
import { takeToken } from "./token-parameter.ts";

/** What a request shows about its sender, checked before any lookup. */
export interface Credentials {
  /** Whether it has TENANCY_API_KEY, or none is set and it does not come from another page. */
  readonly hasKey: boolean;
  /** Who has the other key or the access token of the sandbox that it has, if that is valid. */
  readonly actor: Actor | undefined;
  /** Whether it has another key that cannot be checked at the moment. */
  readonly hasUncheckedKey: boolean;
  /**
   * Whether `Authorization` contains an API key or, in the path form, what a browser sends by itself: the pod never
   * sees it.
   */
  readonly hidesAuthorization: boolean;
  /** Whether `Sec-WebSocket-Protocol` has an entry with a key. */
  readonly hidesProtocols: boolean;
  /** Names of further fields that the pod does not see, in lower case. */
  readonly hiddenFields: ReadonlySet<string> | undefined;
  /** The grant of a link, or of a cookie sent by a page of the same host. */
  readonly link: SignedGrant | undefined;
  readonly cookies: readonly SignedGrant[];
  /** Whether there was a token or cookie, right or wrong. */
  readonly presentsToken: boolean;
  /** The request target for the pod, without a token. */
  readonly target: string;
}

/** The basis of a visitor's admission. */
export type Pass =
  | { readonly by: "public" }
  /** `actor` of another key than TENANCY_API_KEY. */
  | { readonly by: "key"; readonly actor?: Actor }
  | { readonly by: "link" | "cookie"; readonly grant: SignedGrant };

const KEY_PASS: Pass = { by: "key" };
const PUBLIC_PASS: Pass = { by: "public" };

/**
 * Maximum number of cookies of that name that are checked. Over plain HTTP another tenant's page can set some, and
 * those with longer paths come first.
 */
const MAX_COOKIES = 64;
const BEARER = /^bearer +(\S+)$/i;

/**
 * Returns a function that reads the credentials of a request: a key in `Authorization: Bearer` or `X-Tenancy-Key`, a
 * link's token in the query, and in the host form the cookie that replaced a link. At an address of E2B's SDKs also an
 * access token of the sandbox in `X-Access-Token` or `E2B-Traffic-Access-Token`.
 *
 * @param options.isKey undefined if no key is set: every request that does not come from another page counts as having
 * it
 * @param options.keys the keys besides TENANCY_API_KEY. @default they open nothing
 * @param options.readAccessToken reads access tokens of sandboxes. @default they open nothing
 */
export function createCredentials(options: {
  isKey: ((text: string) => boolean) | undefined;
  keys?: Pick<Keys, "actorOf"> | undefined;
  readAccessToken?: ReadAccessToken | undefined;
  tokens: Pick<LinkTokens, "read">;
  frontDoor: FrontDoor;
}): (head: RequestHead, address: Address | undefined) => Credentials {
  const { isKey, keys, tokens, frontDoor } = options;
  const cookie = cookieName(frontDoor);

  /** The actor of the first valid text; "unchecked" if one cannot be checked: its holder must not pass as a stranger. */
  function actorOf(
    texts: readonly string[],
    read: (text: string) => Actor | undefined = (text) => keys?.actorOf(text),
  ): Actor | "unchecked" | undefined {
    try {
      for (const text of texts) {
        const actor = read(text);
        if (actor !== undefined) return actor;
      }
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      return "unchecked";
    }
    return undefined;
  }

  /** The actor of an access token of the sandbox that is asked for. */
  function holderOf(texts: readonly string[], address: Address | undefined): Actor | "unchecked" | undefined {
    const { readAccessToken } = options;
    if (readAccessToken === undefined || address?.sandbox === undefined || address.instance === undefined)
      return undefined;
    const { workload: workloadRef, tenantId } = address.instance;
    return actorOf(texts, (text) => readAccessToken({ workloadRef, tenantId }, text));
  }

  return (head, address) => {
    const read = readFields(head.fields, { cookie, isKey });
    const { target, token } = takeToken(address?.target ?? head.target);
    const isBearer = isKey !== undefined && read.bearer.some(isKey);
    const isKeyed = isKey !== undefined && read.keys.some(isKey);
    const carriesKey = isBearer || isKeyed;
    const ofKeys = carriesKey ? undefined : actorOf(read.keys);
    const ofToken = carriesKey || read.tokens.length === 0 ? undefined : holderOf(read.tokens, address);
    const found = carriesKey ? undefined : (ofToken ?? ofKeys ?? actorOf(read.bearer));
    const link = tokens.read("link", token);
    const isOwn = isOwnPage(head, read, frontDoor);
    const cookies: SignedGrant[] = [];
    // All paths are one origin for all tenants, so credentials that a browser sends by itself do not count there.
    if (isOwn && address?.form === "host") {
      for (const text of read.cookies) {
        const grant = tokens.read("cookie", text);
        if (grant !== undefined) cookies.push(grant);
      }
    }
    return {
      hasKey: carriesKey || (isKey === undefined && isOwn),
      actor: found === "unchecked" ? undefined : found,
      hasUncheckedKey: found === "unchecked",
      hidesAuthorization:
        read.authorizesByKey ||
        isBearer ||
        (address?.form === "path" && mayBeOfBrowser(read, { isKeyed: isKeyed || ofKeys !== undefined })),
      hidesProtocols: read.offersKey,
      hiddenFields: address?.sandbox === undefined ? read.hidden : SANDBOX_FIELDS,
      link,
      cookies,
      presentsToken: token !== undefined || read.cookies.length > 0,
      target,
    };
  };
}

/**
 * The basis of a visitor's admission to an instance; undefined if it is not admitted. A key opens what a link opens,
 * since its holder could create a link.
 */
export function passOf(
  expose: Exposure,
  { hasKey, actor, link, cookies }: Credentials,
  instance: HostTarget,
): Pass | undefined {
  const byKey = hasKey ? KEY_PASS : actor && mayEnter(actor, instance) ? { by: "key" as const, actor } : undefined;
  switch (expose) {
    case "none":
      return undefined;
    case "key":
      return byKey;
    case "link":
    case "public": {
      if (byKey !== undefined) return byKey;
      if (link !== undefined && isFor(link, instance)) return { by: "link", grant: link };
      const cookie = cookies.find((grant) => isFor(grant, instance));
      if (cookie !== undefined) return { by: "cookie", grant: cookie };
      return expose === "public" ? PUBLIC_PASS : undefined;
    }
    default:
      return expose satisfies never;
  }
}

/** Whether a key reaches an instance's program, as the API lets it make a link to it. */
function mayEnter(actor: Actor, { workload, tenantId }: HostTarget): boolean {
  const { role, ended } = actor;
  const isAllowed = role === "admin" || namedUse.roles.includes(role);
  return isAllowed && !ended.aborted && reaches(actor, tenantId) && reachesWorkload(actor, workload);
}

/** The instance that the holder of a token calls by a derived label, which cannot be decoded. */
export function grantedBy({ link, cookies }: Credentials, label: string): HostTarget | undefined {
  for (const grant of link === undefined ? cookies : [link, ...cookies]) {
    const { workload, tenantId, port } = grant;
    const instance = { workload, tenantId, ...(port !== undefined && { port }) };
    if (hostLabel(instance) === label) return instance;
  }
  return undefined;
}

function isFor(grant: SignedGrant, { workload, tenantId, port }: HostTarget): boolean {
  return grant.workload === workload && grant.tenantId === tenantId && grant.port === port;
}

/**
 * The cookie's name. `__Host-` prevents other hosts of the domain from setting it, and requires HTTPS
 * (https://datatracker.ietf.org/doc/html/draft-ietf-httpbis-rfc6265bis#section-4.1.3.2).
 */
export function cookieName({ scheme }: FrontDoor): string {
  return scheme === "https" ? "__Host-tenancy-link" : "tenancy-link";
}

/** The `Set-Cookie` of a token. */
export function linkCookie(frontDoor: FrontDoor, token: string, maxAgeSeconds: number): string {
  const secure = frontDoor.scheme === "https" ? " Secure;" : "";
  return `${cookieName(frontDoor)}=${token}; Max-Age=${maxAgeSeconds}; Path=/;${secure} HttpOnly; SameSite=Lax`;
}

/**
 * Whether a browser may have sent the `Authorization` by itself: it treats all paths as one site, so it sends the
 * credentials for one tenant's program to all. Browsers never send a Bearer token or our key by themselves, and not all
 * of them identify themselves.
 */
function mayBeOfBrowser(
  { hasOtherAuthorization, site, mode, dest }: ReadFields,
  { isKeyed }: { isKeyed: boolean },
): boolean {
  return (hasOtherAuthorization && !isKeyed) || site !== undefined || mode !== undefined || dest !== undefined;
}

interface ReadFields {
  readonly bearer: string[];
  /** Whether an `Authorization`, or an entry of `Sec-WebSocket-Protocol`, has a key, valid or not. */
  authorizesByKey: boolean;
  offersKey: boolean;
  /** Whether there is an `Authorization` of another scheme. */
  hasOtherAuthorization: boolean;
  readonly keys: string[];
  /** Texts of access tokens. */
  readonly tokens: string[];
  /** Fields with a key or an access token, valid or not. */
  hidden: ReadonlySet<string> | undefined;
  readonly cookies: string[];
  origin: string | undefined;
  site: string | undefined;
  mode: string | undefined;
  dest: string | undefined;
}

function readFields(
  fields: readonly Field[],
  { cookie, isKey }: { cookie: string; isKey: ((text: string) => boolean) | undefined },
): ReadFields {
  const read: ReadFields = {
    bearer: [],
    authorizesByKey: false,
    offersKey: false,
    hasOtherAuthorization: false,
    keys: [],
    tokens: [],
    hidden: undefined,
    cookies: [],
    origin: undefined,
    site: undefined,
    mode: undefined,
    dest: undefined,
  };
  for (const [, value, name] of fields) {
    switch (name) {
      case "authorization": {
        read.authorizesByKey ||= authorizesByKey(value, isKey);
        const presented = BEARER.exec(value)?.[1];
        if (presented === undefined) read.hasOtherAuthorization = true;
        else read.bearer.push(presented);
        break;
      }
      case "sec-websocket-protocol":
        read.offersKey ||= value.split(",").some((entry) => isKeyProtocol(entry.trim()));
        break;
      case "x-tenancy-key":
        read.keys.push(value);
        break;
      case "x-api-key":
        if (isApiKeyField(value, isKey)) read.hidden = new Set(read.hidden).add(name);
        break;
      case "x-access-token":
      case "e2b-traffic-access-token":
        if (!isAccessTokenText(value)) break;
        read.tokens.push(value);
        read.hidden = new Set(read.hidden).add(name);
        break;
      case "cookie":
        for (const pair of value.split(";")) {
          const text = pair.trim();
          if (text.startsWith(`${cookie}=`) && read.cookies.length < MAX_COOKIES)
            read.cookies.push(text.slice(cookie.length + 1));
        }
        break;
      case "origin":
        read.origin = value;
        break;
      case "sec-fetch-site":
        read.site = value;
        break;
      case "sec-fetch-mode":
        read.mode = value;
        break;
      case "sec-fetch-dest":
        read.dest = value;
        break;
      default:
    }
  }
  return read;
}

/**
 * Whether nothing suggests a page of another origin. To a browser, tenants' hosts are one site, so `SameSite` does not
 * separate them; `Origin`, which every WebSocket and write has, and `Sec-Fetch-Site` do. A page may lead a person to
 * another tenant's host, as any link does, and no more.
 */
function isOwnPage(head: RequestHead, { origin, site, mode, dest }: ReadFields, { scheme }: FrontDoor): boolean {
  if (origin !== undefined && origin.toLowerCase() !== `${scheme}://${head.host}`) return false;
  if (site === undefined || site === "same-origin" || site === "none") return true;
  return mode === "navigate" && dest === "document" && (head.method === "GET" || head.method === "HEAD");
}

/** Whether a host is a name of this machine or of the front door, so that no page of another name can use it. */
export function isKnownHost(host: string, { domain }: FrontDoor, isLoopback: (name: string) => boolean): boolean {
  const name = nameOf(host).replace(/^\[|\]$/g, "");
  return name === "" || name === domain || name.endsWith(`.${domain}`) || isLoopback(name);
}
