import * as v from "valibot";
import { parseForeignJson } from "../../crds/foreign-json.ts";
import type { ImageReference } from "./parse-reference.ts";

/** A name and password for a registry. */
export interface RegistryLogin {
  readonly username: string;
  readonly password: string;
}

const entrySchema = v.object({
  username: v.optional(v.string()),
  password: v.optional(v.string()),
  /** `username:password` in base64, which counts where it is set. */
  auth: v.optional(v.string()),
});

const configSchema = v.object({ auths: v.optional(v.record(v.string(), v.unknown()), {}) });

/**
 * Finds the logins for an image in the content of `kubernetes.io/dockerconfigjson` Secrets, as the kubelet does: the
 * more specific entry first. An entry that cannot be read is left out.
 *
 * Follows https://kubernetes.io/docs/concepts/containers/images/#config-json
 *
 * @param configs JSON texts
 */
export function loginsFor(image: ImageReference, configs: readonly string[]): RegistryLogin[] {
  return configs
    .flatMap(entriesOf)
    .filter(({ key }) => matches(key, image))
    .sort((a, b) => (a.key < b.key ? 1 : a.key > b.key ? -1 : 0))
    .flatMap(({ entry }) => loginOf(entry) ?? []);
}

function entriesOf(text: string): { key: string; entry: unknown }[] {
  try {
    const { auths } = v.parse(configSchema, parseForeignJson(text));
    return Object.entries(auths).map(([key, entry]) => ({ key: withoutScheme(key), entry }));
  } catch (error) {
    // Neither JSON nor of that shape: the registry says whether it takes requests without a login.
    if (error instanceof Error) return [];
    throw error;
  }
}

/** `https://index.docker.io/v1/` is `index.docker.io`. */
function withoutScheme(key: string): string {
  return key.replace(/^https?:\/\//, "").replace(/\/(v1|v2)?\/?$/, "");
}

/** A `*` in the host of a key stands for any text within one label. */
function matches(key: string, { host, repository }: ImageReference): boolean {
  const [keyHost = "", ...path] = key.split("/");
  const isPrefix = repository.startsWith(path.join("/"));
  if (host === "docker.io" && keyHost === "index.docker.io") return isPrefix;
  const [wanted, given] = [keyHost, host].map((text) => text.split(/[.:]/)) as [string[], string[]];
  const samePort = keyHost.includes(":") === host.includes(":");
  return isPrefix && samePort && wanted.length === given.length && wanted.every((part, at) => fits(part, given[at]));
}

function fits(part: string, label = ""): boolean {
  if (!part.includes("*")) return part === label;
  const [start = "", end = "", ...more] = part.split("*");
  const isLongEnough = label.length >= start.length + end.length;
  return more.length === 0 && isLongEnough && label.startsWith(start) && label.endsWith(end);
}

function loginOf(entry: unknown): RegistryLogin | undefined {
  const parsed = v.safeParse(entrySchema, entry);
  if (!parsed.success) return undefined;
  const { auth, username, password } = parsed.output;
  if (auth === undefined || auth === "") {
    return username === undefined || password === undefined ? undefined : { username, password };
  }
  const text = Buffer.from(auth, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon < 0 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
