import * as v from "valibot";
import { parseForeignJson } from "../../crds/foreign-json.ts";
import type { Get } from "./guarded-get.ts";
import { RegistryError } from "./registry-error.ts";
import type { RegistryLogin } from "./registry-logins.ts";

/** One way to log in that a server offers (RFC 9110, section 11.6.1). */
export interface Challenge {
  /** In lower case. */
  readonly scheme: string;
  /** By their names in lower case. */
  readonly parameters: ReadonlyMap<string, string>;
}

const MOST_TOKEN_BYTES = 64 * 1024;
const tokenSchema = v.object({ token: v.optional(v.string()), access_token: v.optional(v.string()) });

/**
 * Returns the `Authorization` that a registry's challenge asks for; undefined where this login does not help.
 *
 * A login goes to the registry, or in its place to the token service that the registry names, and nowhere else: the
 * answer of that service may be no redirect.
 *
 * Follows https://distribution.github.io/distribution/spec/auth/token/
 *
 * @param options.login @default none: a registry may give tokens to everyone
 */
export async function authorize(
  challenges: readonly Challenge[],
  { get, login, repository }: { get: Get; login?: RegistryLogin | undefined; repository: string },
): Promise<string | undefined> {
  const basic = login && `Basic ${Buffer.from(`${login.username}:${login.password}`, "utf8").toString("base64")}`;
  const bearer = challenges.find(({ scheme }) => scheme === "bearer");
  if (bearer === undefined) return challenges.some(({ scheme }) => scheme === "basic") ? basic : undefined;
  const realm = bearer.parameters.get("realm") ?? "";
  if (!URL.canParse(realm)) throw new RegistryError("RegistryUnauthorized", "the registry names no token service");
  const url = new URL(realm);
  const service = bearer.parameters.get("service");
  if (service !== undefined) url.searchParams.set("service", service);
  url.searchParams.set("scope", bearer.parameters.get("scope") ?? `repository:${repository}:pull`);
  const headers = { accept: "application/json", ...(basic !== undefined && { authorization: basic }) };
  const { status, body } = await get(url, { headers, mostBytes: MOST_TOKEN_BYTES });
  if (status === 401 || status === 403) return undefined;
  if (status !== 200) {
    throw new RegistryError("RegistryUnreachable", `the registry's token service ${url.host} answers ${status}`);
  }
  const token = tokenOf(body.toString("utf8"));
  if (token === undefined) {
    throw new RegistryError("RegistryUnauthorized", `the registry's token service ${url.host} gives no token`);
  }
  return `Bearer ${token}`;
}

function tokenOf(text: string): string | undefined {
  try {
    const { token, access_token: other } = v.parse(tokenSchema, parseForeignJson(text));
    const given = token ?? other;
    // What a header may not have would be an error of its own.
    return given !== undefined && /^[\x21-\x7e]+$/.test(given) ? given : undefined;
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}

const PART = /[\s,]*([!#$%&'*+.^_`|~\w-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?/y;

/** Reads the header `WWW-Authenticate`, as far as it can be read. */
export function parseChallenges(header = ""): Challenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = [];
  const part = new RegExp(PART);
  for (let found = part.exec(header); found !== null; found = part.exec(header)) {
    const [, name = "", quoted, plain] = found;
    const value = quoted?.replace(/\\(.)/g, "$1") ?? plain;
    if (value === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: new Map() });
    else challenges.at(-1)?.parameters.set(name.toLowerCase(), value);
  }
  return challenges;
}
