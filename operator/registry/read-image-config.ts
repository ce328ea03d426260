import { createHash } from "node:crypto";
import * as v from "valibot";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { parseForeignJson } from "../../crds/foreign-json.ts";
import { withTimeLimit } from "../../crds/waits.ts";
import { closedRanges } from "../cluster/address-ranges.ts";
import { createGuardedGet } from "./guarded-get.ts";
import { type ImageReference, parseReference, registryHost } from "./parse-reference.ts";
import { createPull, type Pull } from "./registry-client.ts";
import { RegistryError } from "./registry-error.ts";
import { loginsFor } from "./registry-logins.ts";
import type { SettingsByHost } from "./registry-settings.ts";

/** What an image says of its program. */
export interface ImageConfig {
  /** What the reference leads to, an index or a manifest: `sha256:` and 64 hexadecimal digits. */
  readonly digest: string;
  /** Its ENTRYPOINT. */
  readonly command: readonly string[];
  /** Its CMD. */
  readonly args: readonly string[];
}

export type Architecture = "amd64" | "arm64";

export interface ReadImageConfigOptions {
  /** An image reference. */
  readonly ref: string;
  /** Contents of `kubernetes.io/dockerconfigjson` Secrets. @default none */
  readonly logins?: readonly string[];
  /** How registries are reached. @default over HTTPS, with public authorities */
  readonly settings?: SettingsByHost;
  /** Of the nodes. @default that of this process: the operator runs on one of the nodes */
  readonly architecture?: Architecture;
  /** Ranges, beside those of metadata services, that no host may be in but the registry's own. @default `closedRanges` */
  readonly closed?: readonly string[];
  /** Milliseconds for each host that is asked. @default 20000 */
  readonly limitMs?: number;
  readonly clock?: Clock;
  readonly signal: AbortSignal;
}

export type ReadImageConfig = (options: ReadImageConfigOptions) => Promise<ImageConfig>;

const MOST_MANIFEST_BYTES = 4 * 1024 * 1024;
const MOST_CONFIG_BYTES = 1024 * 1024;
/** In a workload's status, which every operator and edge holds in memory. */
const MOST_WORDS = 256;
const MOST_CHARACTERS = 64 * 1024;
/** An index may name indexes. */
const MOST_LEVELS = 4;
const LIMIT_MS = 20_000;

const MANIFESTS = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

const SHA256 = /^sha256:[0-9a-f]{64}$/;
const digestSchema = v.pipe(v.string(), v.regex(SHA256));
const platformSchema = v.object({ os: v.string(), architecture: v.string(), variant: v.optional(v.string(), "") });
const childSchema = v.object({ digest: digestSchema, platform: v.optional(platformSchema) });
const indexSchema = v.object({ manifests: v.array(childSchema), config: v.optional(v.undefined()) });
const manifestSchema = v.object({ config: v.object({ digest: digestSchema }), manifests: v.optional(v.undefined()) });
const eitherSchema = v.union([indexSchema, manifestSchema]);

const word = v.pipe(
  v.string(),
  v.check((text) => !text.includes("\0")),
);
const wordsSchema = v.nullish(v.pipe(v.array(word), v.maxLength(MOST_WORDS)));
const configSchema = v.object({ config: v.nullish(v.object({ Entrypoint: wordsSchema, Cmd: wordsSchema })) });

/**
 * Reads from its registry which program an image names, as a node would find it: from the mirrors first, of an index
 * the manifest for Linux on the architecture. Every manifest and configuration that a digest names has to match it.
 *
 * Follows https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md
 *
 * @throws RegistryError when it cannot be read
 * @throws the signal's reason when it is aborted
 */
export async function readImageConfig(options: ReadImageConfigOptions): Promise<ImageConfig> {
  const { signal, limitMs = LIMIT_MS, clock = systemClock } = options;
  const image = parseReference(options.ref);
  const failures: RegistryError[] = [];
  for (const endpoint of endpointsOf(image, options)) {
    const { host } = endpoint;
    const late = () => new RegistryError("RegistryUnreachable", `${host} did not answer within ${limitMs / 1000} s`);
    try {
      return await withTimeLimit({ what: late, ms: limitMs, clock, signal }, (limited) =>
        readConfig(image, pullFrom(endpoint, { ...options, clock, signal: limited }), options),
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof RegistryError)) throw error;
      failures.push(error);
    }
  }
  const last = failures.at(-1);
  const message = failures.map((failure) => failure.message).join("; ");
  throw new RegistryError(last?.reason ?? "RegistryUnreachable", message, { cause: last });
}

/** A registry, or a mirror of it. */
interface Endpoint {
  /** As settings and logins have it. */
  readonly host: string;
  readonly address: string;
  readonly repository: string;
}

function endpointsOf({ host, repository }: ImageReference, { settings }: ReadImageConfigOptions): Endpoint[] {
  const mirrors = settings?.get(host)?.mirrors ?? [];
  return [
    ...mirrors.map((mirror) => {
      const [address = "", ...folders] = mirror.split("/").filter((part) => part !== "");
      return { host: address, address, repository: [...folders, repository].join("/") };
    }),
    { host, address: registryHost(host), repository },
  ];
}

function pullFrom(
  { host, address, repository }: Endpoint,
  {
    settings,
    logins = [],
    closed = closedRanges,
    clock = systemClock,
    signal,
  }: Pick<ReadImageConfigOptions, "settings" | "logins" | "closed" | "clock" | "signal">,
): Pull {
  const own = settings?.get(host);
  // As containerd and BuildKit do.
  const isPlain = own?.isPlain ?? /^(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?$/.test(host);
  const origin = `${isPlain ? "http" : "https"}://${address}`;
  if (!URL.canParse(origin)) throw new RegistryError("RegistryUnreachable", `${host} is no registry`);
  const registry = new URL(origin);
  const get = createGuardedGet({ registry, settings: own, closed, clock, signal });
  return createPull({
    ...{ registry, repository, get },
    logins: loginsFor({ host, repository, tag: undefined, digest: undefined }, logins),
  });
}

async function readConfig(
  { tag, digest: asked }: ImageReference,
  pull: Pull,
  { architecture = ownArchitecture() }: Pick<ReadImageConfigOptions, "architecture">,
): Promise<ImageConfig> {
  if (asked !== undefined && !SHA256.test(asked)) throw unreadable(`a digest must be sha256 and 64 hexadecimal digits`);
  let body = await pullManifest(asked ?? tag ?? "", { pull, digest: asked });
  const digest = digestOf(body);
  for (let level = 1; level <= MOST_LEVELS; level += 1) {
    const manifest = parse(eitherSchema, body, "the manifest");
    if (manifest.config !== undefined) {
      const { digest: wanted } = manifest.config;
      const request = { accept: "*/*", mostBytes: MOST_CONFIG_BYTES };
      const config = checked(await pull(`blobs/${wanted}`, request), wanted);
      return { digest, ...programOf(config) };
    }
    const child = childFor(architecture, manifest.manifests ?? []);
    if (child === undefined) throw new RegistryError("ImageNotFound", `the image has no linux/${architecture}`);
    body = await pullManifest(child, { pull, digest: child });
  }
  throw unreadable(`the image's indexes are nested more than ${MOST_LEVELS} levels deep`);
}

async function pullManifest(
  reference: string,
  { pull, digest }: { pull: Pull; digest: string | undefined },
): Promise<Buffer> {
  const body = await pull(`manifests/${reference}`, { accept: MANIFESTS, mostBytes: MOST_MANIFEST_BYTES });
  return digest === undefined ? body : checked(body, digest);
}

/** The manifest that a node takes; one without a platform where no other fits. */
function childFor(architecture: Architecture, manifests: readonly v.InferOutput<typeof childSchema>[]) {
  // What every machine of the architecture runs.
  const variants = ["", architecture === "arm64" ? "v8" : "v1"];
  const fitting = manifests.find(
    ({ platform }) =>
      platform?.os === "linux" && platform.architecture === architecture && variants.includes(platform.variant),
  );
  return (fitting ?? manifests.find(({ platform }) => platform === undefined))?.digest;
}

function programOf(body: Buffer): Pick<ImageConfig, "command" | "args"> {
  const { config } = parse(configSchema, body, "the image's configuration");
  const [command, args] = [config?.Entrypoint ?? [], config?.Cmd ?? []];
  if (JSON.stringify([command, args]).length > MOST_CHARACTERS) {
    throw unreadable(`the image's command is longer than ${MOST_CHARACTERS} characters`);
  }
  return { command, args };
}

function parse<T>(schema: v.GenericSchema<unknown, T>, body: Buffer, what: string): T {
  try {
    const bounds = { characters: MOST_MANIFEST_BYTES };
    return v.parse(schema, parseForeignJson(body.toString("utf8"), bounds));
  } catch (cause) {
    throw new RegistryError("ImageUnreadable", `${what} cannot be read`, { cause });
  }
}

function checked(body: Buffer, digest: string): Buffer {
  const found = digestOf(body);
  if (found !== digest) throw unreadable(`the registry sends ${found} in place of ${digest}`);
  return body;
}

function digestOf(body: Buffer): string {
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}

function ownArchitecture(): Architecture {
  return process.arch === "arm64" ? "arm64" : "amd64";
}

function unreadable(message: string): RegistryError {
  return new RegistryError("ImageUnreadable", message);
}
