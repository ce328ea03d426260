/**
 * A header field as sent: its name in the sender's case, its value without surrounding blanks, and the name in lower
 * case.
 */
export type Field = readonly [name: string, value: string, lowerCase: string];

/** Requests with these change nothing. https://www.rfc-editor.org/rfc/rfc9110#name-safe-methods */
export const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

/** The request line and headers (https://www.rfc-editor.org/rfc/rfc9112#section-2.1). */
export interface RequestHead {
  readonly method: string;
  /**
   * The request's target in origin form, byte for byte as sent, except that bytes over 127 are percent-encoded; `*` for
   * `OPTIONS`.
   */
  readonly target: string;
  /** The minor version of HTTP/1. */
  readonly minor: 0 | 1;
  /** The host of the request, without blanks, in lower case; empty if an HTTP/1.0 client sends none. */
  readonly host: string;
  readonly fields: readonly Field[];
}

/** The status line and headers of a response. */
export interface ResponseHead {
  readonly status: number;
  readonly reason: string;
  readonly minor: 0 | 1;
  readonly fields: readonly Field[];
}

/** A message that is not forwarded: it is ambiguous or not readable. */
export class MessageError extends Error {
  override readonly name = "MessageError";
  /** The status of the response to such a request. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Maximum size of a head. */
export interface HeadLimits {
  readonly bytes: number;
  readonly fields: number;
}

const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP\/(\d)\.(\d)$/;
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;
const ABSOLUTE = /^http:\/\/([^/?#]*)(.*)$/i;

/** Programs send these as typed; browsers encode them. */
const EIGHT_BIT = /[\x80-\xff]/g;

/** Maximum length of a method's name; the longest registered one has 17 letters. */
const MAX_METHOD = 32;

/**
 * Parses the head of a request, strictly: refuses what two readers could interpret differently
 * (https://www.rfc-editor.org/rfc/rfc9112#section-11.2), and what no client sends today.
 *
 * @param text the head in Latin-1, without the blank line
 * @throws MessageError
 */
export function parseRequestHead(text: string, limits: HeadLimits): RequestHead {
  const lines = text.split("\r\n");
  const [, method = "", target = "", major, minor] = REQUEST_LINE.exec(lines[0] ?? "") ?? [];
  if (method === "") throw new MessageError(400, "request: the first line is not METHOD TARGET HTTP/1.1");
  if (major !== "1" || (minor !== "0" && minor !== "1")) {
    throw new MessageError(505, `request: HTTP/${major}.${minor} is not supported, HTTP/1.1 is`);
  }
  if (method.length > MAX_METHOD) throw new MessageError(501, "request: unknown method");
  const fields = parseFields(lines, limits);
  const host = hostOf(fields, minor);
  const ascii = target.replace(EIGHT_BIT, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`);
  return { method, target: originForm(ascii, { method, host }), minor: minor === "1" ? 1 : 0, host, fields };
}

/** Parses the head of a pod's response, as strictly. @throws MessageError */
export function parseResponseHead(text: string, limits: HeadLimits): ResponseHead {
  const lines = text.split("\r\n");
  const [, minor, status, reason = ""] = STATUS_LINE.exec(lines[0] ?? "") ?? [];
  if (status === undefined) throw new MessageError(502, "response: the first line is not HTTP/1.1 STATUS");
  return { status: Number(status), reason, minor: minor === "1" ? 1 : 0, fields: parseFields(lines, limits) };
}

/** Parses lines `Name: value` after the first line of a head, or the trailer of a body. @throws MessageError */
export function parseFields(lines: readonly string[], limits: HeadLimits, first = 1): Field[] {
  if (lines.length - first > limits.fields) {
    throw new MessageError(431, `headers: more than ${limits.fields} are too many`);
  }
  const fields: Field[] = [];
  for (let at = first; at < lines.length; at += 1) {
    const line = lines[at] as string;
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    // A folded line, a blank before the colon and a line without one are not valid names.
    if (colon < 1 || !NAME.test(name)) throw new MessageError(400, "headers: a line is not NAME: VALUE");
    const value = trimmed(line, colon + 1);
    if (!VALUE.test(value)) throw new MessageError(400, `headers: ${name} holds a control character`);
    fields.push([name, value, name.toLowerCase()]);
  }
  return fields;
}

/** The values of a field, by its name in lower case: one for each line. */
export function valuesOf(fields: readonly Field[], name: string): string[] {
  const values: string[] = [];
  for (const [, value, one] of fields) if (one === name) values.push(value);
  return values;
}

/** The members of a list field, in lower case, from all lines. */
export function listOf(fields: readonly Field[], name: string): string[] {
  const members: string[] = [];
  for (const [, value, one] of fields) {
    if (one !== name) continue;
    for (const member of value.split(",")) {
      const word = trimmed(member, 0).toLowerCase();
      if (word !== "") members.push(word);
    }
  }
  return members;
}

/** Blanks are only space and tab; `trim` removes more. */
function trimmed(line: string, from: number): string {
  let start = from;
  let end = line.length;
  while (start < end && isBlank(line, start)) start += 1;
  while (end > start && isBlank(line, end - 1)) end -= 1;
  return line.slice(start, end);
}

function isBlank(line: string, at: number): boolean {
  const code = line.charCodeAt(at);
  return code === 0x20 || code === 0x09;
}

function hostOf(fields: readonly Field[], minor: string): string {
  const hosts = valuesOf(fields, "host");
  if (hosts.length > 1) throw new MessageError(400, "headers: more than one Host");
  const host = hosts[0]?.toLowerCase() ?? "";
  if (host === "" && minor === "0") return "";
  if (!HOST.test(host)) throw new MessageError(400, "headers: Host is not a name with an optional port");
  return host;
}

/**
 * A server must accept a target that is a whole URL; it is refused unless it names this host
 * (https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2).
 */
function originForm(target: string, { method, host }: { method: string; host: string }): string {
  if (target.includes("#")) throw new MessageError(400, "request: a target has no fragment");
  if (target.startsWith("/")) return target;
  if (target === "*" && method === "OPTIONS") return target;
  if (method === "CONNECT") return target;
  const [, authority, rest = ""] = ABSOLUTE.exec(target) ?? [];
  if (authority === undefined) throw new MessageError(400, "request: the target is not a path");
  if (authority.toLowerCase() !== host) throw new MessageError(400, "request: the target is for another host");
  return rest.startsWith("/") ? rest : `/${rest}`;
}
