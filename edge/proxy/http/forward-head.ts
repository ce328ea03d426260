import type { BodyFraming } from "./body-framing.ts";
import type { AnswerField } from "./local-answer.ts";
import { type Field, listOf, type RequestHead, type ResponseHead } from "./message-head.ts";

/** What the pod learns about a request's origin; nothing of it comes from the request itself. */
export interface Origin {
  /** The client's address. */
  readonly address: string;
  /** The scheme that the client uses, if known: behind a load balancer that ends TLS it differs from ours. */
  readonly scheme: "http" | "https";
  readonly requestId: string;
}

/** Address of the pod's listener. */
export interface PodAddress {
  readonly host: string;
  readonly port: number;
}

/** Changes of a request for the pod. */
export interface RequestChanges {
  /** The path and query for the pod. @default the request's own */
  readonly target?: string | undefined;
  /** The part of the client's path before the pod's. @default none */
  readonly prefix?: string | undefined;
  /** A cookie of the proxy, which the pod does not get. */
  readonly hiddenCookie?: string | undefined;
  /** Whether `Authorization` contains a key of the proxy. @default false */
  readonly hidesAuthorization?: boolean | undefined;
  /** Whether an entry of `Sec-WebSocket-Protocol` is removed. @default none */
  readonly hidesProtocol?: ((entry: string) => boolean) | undefined;
  /** Whether all cookies are removed, including those of the pod. @default false */
  readonly hidesCookies?: boolean | undefined;
  /** Changes a `Referer`. @default unchanged */
  readonly referer?: ((value: string) => string) | undefined;
  /** Names of further fields that are removed, in lower case. @default none */
  readonly hiddenFields?: ReadonlySet<string> | undefined;
  /** The `Host`. @default the request's own */
  readonly host?: string | undefined;
  /** Fields in addition to the client's. @default none */
  readonly fields?: readonly AnswerField[] | undefined;
}

/** Changes of a response for the client. */
export interface ResponseChanges {
  /** Changes a `Set-Cookie`; undefined removes it. @default unchanged */
  readonly setCookie?: ((value: string) => string | undefined) | undefined;
  /** Whether the host belongs only to the pod, so that the client can use its `Location`. @default false */
  readonly ownsHost?: boolean | undefined;
  /** Whether a field of the pod is removed, by its name in lower case. @default none */
  readonly drops?: ((name: string) => boolean) | undefined;
  /** Fields in addition to the pod's. */
  readonly fields?: readonly AnswerField[] | undefined;
}

/** Belong to one connection (https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1), or define how a body is framed. */
const HOP_BY_HOP = new Set([
  "connection",
  "content-length",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** What proxies report about a client, which a pod trusts; a client must not set it. */
const OURS = /^(?:forwarded|x-forwarded(?:-.*)?|x-real-ip|x-request-id|x-original-.*|x-rewrite-url|x-tenancy-.*)$/;

/** Fields that have a meaning before the body is read; in a trailer they are dropped. */
const NOT_IN_TRAILER =
  /^(?:host|authorization|cookie|set-cookie|content-.*|cache-control|expect|max-forwards|pragma|range|if-.*|date|age|expires|location|referer|retry-after|vary|warning|www-authenticate|e2b-.*|x-access-token|x-api-key)$/;

/** Whether the request is a WebSocket handshake: the only protocol that a connection may switch to. */
export function asksForWebSocket({ minor, method, fields }: RequestHead): boolean {
  return (
    minor === 1 &&
    method === "GET" &&
    listOf(fields, "connection").includes("upgrade") &&
    listOf(fields, "upgrade").includes("websocket")
  );
}

/**
 * Whether the sender keeps its connection after this message; HTTP/1.0 must ask for it
 * (https://www.rfc-editor.org/rfc/rfc9112#section-9.3).
 */
export function keepsAlive({ minor, fields }: Pick<RequestHead, "minor" | "fields">): boolean {
  const options = listOf(fields, "connection");
  return !options.includes("close") && (minor === 1 || options.includes("keep-alive"));
}

/** Writes the head of the request for the pod. */
export function requestHeadFor(
  request: RequestHead,
  options: { framing: BodyFraming; origin: Origin; changes: RequestChanges; upgrades: boolean; pod: PodAddress },
): string {
  const { framing, origin, changes, upgrades, pod } = options;
  const named = namedByConnection(request.fields);
  let text = `${request.method} ${changes.target ?? request.target} HTTP/1.1\r\n`;
  // An HTTP/1.0 client may omit it; HTTP/1.1 requires one, and servers such as nginx refuse an empty one.
  if (changes.host !== undefined) text += `Host: ${changes.host}\r\n`;
  else if (request.host === "") text += `Host: ${pod.host.includes(":") ? `[${pod.host}]` : pod.host}:${pod.port}\r\n`;
  for (const [name, value, lowerCase] of request.fields) {
    if (HOP_BY_HOP.has(lowerCase) || named?.has(lowerCase) || isOurs(lowerCase)) continue;
    if (lowerCase === "cookie" && changes.hidesCookies === true) continue;
    if (lowerCase === "cookie" && changes.hiddenCookie !== undefined) {
      const shown = withoutCookie(value, changes.hiddenCookie);
      if (shown !== "") text += `${name}: ${shown}\r\n`;
      continue;
    }
    if (lowerCase === "authorization" && changes.hidesAuthorization === true) continue;
    if (lowerCase === "sec-websocket-protocol" && changes.hidesProtocol !== undefined) {
      const { hidesProtocol } = changes;
      const shown = value.split(",").filter((entry) => !hidesProtocol(entry.trim()));
      if (shown.length > 0) text += `${name}: ${shown.join(",").trim()}\r\n`;
      continue;
    }
    if (lowerCase === "host" && (request.host === "" || changes.host !== undefined)) continue;
    if (changes.hiddenFields?.has(lowerCase)) continue;
    if (lowerCase === "referer" && changes.referer !== undefined) {
      text += `${name}: ${changes.referer(value)}\r\n`;
      continue;
    }
    // HTTP/1.0 has no interim responses.
    if (lowerCase === "expect" && request.minor === 0) continue;
    text += `${name}: ${value}\r\n`;
  }
  if (listOf(request.fields, "te").includes("trailers")) text += "TE: trailers\r\nConnection: te\r\n";
  text += `X-Forwarded-For: ${origin.address}\r\nX-Forwarded-Proto: ${origin.scheme}\r\n`;
  if (request.host !== "") text += `X-Forwarded-Host: ${request.host}\r\n`;
  for (const [name, value] of changes.fields ?? []) text += `${name}: ${value}\r\n`;
  if (changes.prefix !== undefined) text += `X-Forwarded-Prefix: ${changes.prefix}\r\n`;
  text += `X-Request-Id: ${origin.requestId}\r\n`;
  if (upgrades) text += "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  return `${text}${framingField(framing)}\r\n`;
}

/**
 * Writes the head of the response for the client.
 *
 * @param options.framing how its body is sent
 * @param options.keepAlive whether the client may send its next request on this connection
 */
export function responseHeadFor(
  response: ResponseHead,
  options: {
    framing: BodyFraming;
    request: Pick<RequestHead, "method" | "minor" | "host">;
    scheme: Origin["scheme"];
    /** The port that the pod considers its own. */
    podPort: number | undefined;
    changes: ResponseChanges;
    keepAlive: boolean;
    switches?: boolean;
  },
): string {
  const { framing, request, changes, keepAlive, switches = false } = options;
  const named = namedByConnection(response.fields);
  let text = `HTTP/1.1 ${response.status} ${response.reason}\r\n`;
  for (const [name, value, lowerCase] of response.fields) {
    if (lowerCase === "content-length" && tellsLength(response, request.method)) {
      text += `${name}: ${value}\r\n`;
      continue;
    }
    if (HOP_BY_HOP.has(lowerCase) || named?.has(lowerCase) || changes.drops?.(lowerCase)) continue;
    if (lowerCase === "set-cookie" && changes.setCookie !== undefined) {
      const changed = changes.setCookie(value);
      if (changed !== undefined) text += `${name}: ${changed}\r\n`;
      continue;
    }
    if (lowerCase === "location" && changes.ownsHost === true) {
      text += `${name}: ${locationFor(value, { ...options, host: request.host })}\r\n`;
      continue;
    }
    text += `${name}: ${value}\r\n`;
  }
  for (const [name, value] of changes.fields ?? []) text += `${name}: ${value}\r\n`;
  if (switches) return `${text}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  if (response.status >= 200 && !keepAlive) text += "Connection: close\r\n";
  else if (request.minor === 0) text += "Connection: keep-alive\r\n";
  return `${text}${framingField(framing)}\r\n`;
}

const ORIGIN = /^http:\/\/([^/?#:@\\]+)(?::(\d+))?(?=[/?#]|$)/i;

/**
 * A `Location` as the client can use it. Servers such as nginx add their own port to the name that they were called by,
 * and use the scheme that they speak themselves.
 */
function locationFor(
  value: string,
  options: { host: string; scheme: Origin["scheme"]; podPort: number | undefined },
): string {
  const [whole = "", name = "", port] = ORIGIN.exec(value) ?? [];
  if (name.toLowerCase() !== options.host.replace(/:\d+$/, "")) return value;
  if (port !== undefined && Number(port) !== options.podPort) return value;
  return `${options.scheme}://${options.host}${value.slice(whole.length)}`;
}

/** Writes the trailer of a chunked body, with the blank line. */
export function trailerFor(trailer: readonly Field[]): string {
  let text = "";
  for (const [name, value, lowerCase] of trailer) {
    if (HOP_BY_HOP.has(lowerCase) || isOurs(lowerCase) || NOT_IN_TRAILER.test(lowerCase)) continue;
    text += `${name}: ${value}\r\n`;
  }
  return `${text}\r\n`;
}

/** Whether a response without a body states how long the body would be. */
function tellsLength({ status }: ResponseHead, method: string): boolean {
  return status === 304 || (method === "HEAD" && status >= 200 && status !== 204);
}

function framingField(framing: BodyFraming): string {
  switch (framing.kind) {
    case "none":
    case "close":
      return "";
    case "length":
      return `Content-Length: ${framing.bytes}\r\n`;
    case "chunked":
      return "Transfer-Encoding: chunked\r\n";
    default:
      return framing satisfies never;
  }
}

/** Fields named by `Connection` belong to the connection too. */
function namedByConnection(fields: readonly Field[]): Set<string> | undefined {
  const named = listOf(fields, "connection");
  return named.length === 0 ? undefined : new Set(named.filter((name) => !NEVER_NAMED.has(name)));
}

/** A client must not be able to remove the fields that the checks relied on. */
const NEVER_NAMED = new Set(["host", "expect"]);

/** CGI and similar programs read `X_Forwarded_For` as `X-Forwarded-For`. */
function isOurs(lowerCase: string): boolean {
  const code = lowerCase.charCodeAt(0);
  if (code !== 0x78 && code !== 0x66) return false;
  return OURS.test(lowerCase.includes("_") ? lowerCase.replaceAll("_", "-") : lowerCase);
}

/** Removes a cookie from a `Cookie` field, every one of that name. */
export function withoutCookie(value: string, name: string): string {
  if (!value.includes(name)) return value;
  return value
    .split(";")
    .filter((pair) => pair.split("=", 1)[0]?.trim() !== name)
    .join(";")
    .trim();
}

/**
 * Restricts a cookie to the host that set it: without its `Domain`, by which a tenant's page could set cookies of
 * another tenant's host. Undefined if the cookie has the name of the proxy's own.
 */
export function hostOnlyCookie(value: string, reserved: string): string | undefined {
  const [pair = "", ...attributes] = value.split(";");
  if (pair.split("=", 1)[0]?.trim().toLowerCase() === reserved.toLowerCase()) return undefined;
  const kept = attributes.filter((attribute) => attribute.split("=", 1)[0]?.trim().toLowerCase() !== "domain");
  return [pair, ...kept].join(";");
}
