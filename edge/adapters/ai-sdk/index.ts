import { createHash, randomUUID } from "node:crypto";
import {
  HarnessSandboxAuthenticationError,
  type HarnessV1NetworkSandboxSession,
  type HarnessV1SandboxProvider,
} from "@ai-sdk/harness";
import { type Client, createClient } from "../../client/index.ts";
import { end, exitCodeOf, idOf, isStatus, orUndefined, outputOf, shell, WAIT_SECONDS } from "../sandbox.ts";
import { createSpawn } from "./spawn.ts";

export interface TenancySandboxSettings {
  /** Of the API. */
  readonly url: string;
  /** A key of the role `platform`, or one of tenants whose ids begin with `harness-`. */
  readonly apiKey?: string;
  /** The workload of each session. */
  readonly workload: string;
  /** The tenant of a session, by its id. @default one of its own, whose files are erased by `destroy` */
  readonly tenant?: (sessionId: string | undefined) => string;
  /** Those of the workload's `network.ports` that sessions show. @default none */
  readonly ports?: readonly number[];
  /** An absolute path. @default the folder in which the container starts */
  readonly workingDirectory?: string;
  /** @default the runtime's */
  readonly fetch?: NonNullable<Parameters<typeof createClient>[0]["fetch"]>;
}

type Session = HarnessV1NetworkSandboxSession;
type Restricted = ReturnType<Session["restricted"]>;

const PROVIDER = "tenancy";
/** A day: the API's longest. */
const TIMEOUT_SECONDS = 86_400;

/**
 * A provider of sandboxes for the AI SDK's harness (`harness-sandbox-v1`): each session is the claim of a tenant.
 *
 * ```ts
 * const agent = new HarnessAgent({ harness, sandbox: tenancySandbox({ url: "http://127.0.0.1:8080", workload: "desk" }) });
 * ```
 */
export function tenancySandbox(settings: TenancySandboxSettings): HarnessV1SandboxProvider {
  const { url, apiKey, workload, fetch, ports = [] } = settings;
  const key = apiKey === undefined ? {} : { key: apiKey };
  const client = createClient({ url, ...key, ...(fetch !== undefined && { fetch }) });
  const tenantOf = (sessionId: string | undefined): string => settings.tenant?.(sessionId) ?? ownTenant(sessionId);

  async function open(tenant: string, signal: AbortSignal | undefined): Promise<{ session: Session; isNew: boolean }> {
    try {
      const waits = { waitSeconds: WAIT_SECONDS, signal };
      const { source } = await client.claim(tenant, workload, { resume: true }, waits);
      const place = { tenant, workload };
      const folder = settings.workingDirectory ?? (await client.run(place, shell("pwd"), { signal })).stdout.trim();
      const session = createSession({ client, place, folder, ports, isOwn: settings.tenant === undefined });
      return { session, isNew: source !== "existing" };
    } catch (cause) {
      if (!(cause instanceof Error) || !(isStatus(cause, 401) || isStatus(cause, 403))) throw cause;
      throw new HarnessSandboxAuthenticationError({ message: cause.message, sandboxProviderId: PROVIDER, cause });
    }
  }

  return {
    specificationVersion: "harness-sandbox-v1",
    providerId: PROVIDER,
    async createSession({ sessionId, abortSignal, onFirstCreate } = {}) {
      const { session, isNew } = await open(tenantOf(sessionId), abortSignal);
      // There is no image of a prepared sandbox, so each new one is prepared.
      if (isNew) await onFirstCreate?.(session.restricted(), abortSignal === undefined ? {} : { abortSignal });
      return session;
    },
    resumeSession: async ({ sessionId, abortSignal }) => (await open(tenantOf(sessionId), abortSignal)).session,
  };
}

/** The same for the same session, whose id may have characters that a tenant's has not. */
function ownTenant(sessionId: string | undefined): string {
  if (sessionId === undefined) return `harness-${randomUUID()}`;
  return `harness-${createHash("sha256").update(sessionId).digest("hex").slice(0, 32)}`;
}

function createSession(options: {
  client: Client;
  place: { tenant: string; workload: string };
  /** Where relative paths begin. */
  folder: string;
  ports: readonly number[];
  /** Whether the tenant is the session's alone. */
  isOwn: boolean;
}): Session {
  const { client, place, folder, ports, isOwn } = options;
  const { tenant, workload } = place;
  const absolute = (path: string): string => (path.startsWith("/") ? path : `${folder}/${path}`);
  const read = (path: string, signal: AbortSignal | undefined) =>
    orUndefined(client.files.read(place, absolute(path), { signal }));

  async function write(
    { path, abortSignal: signal }: { path: string; abortSignal?: AbortSignal },
    content: Parameters<Client["files"]["write"]>[2],
  ): Promise<void> {
    await client.files.write(place, absolute(path), content, { signal });
  }

  const optionsOf = ({ workingDirectory, env, abortSignal }: Parameters<Restricted["run"]>[0]) => ({
    cwd: workingDirectory === undefined ? folder : absolute(workingDirectory),
    ...{ env, timeoutSeconds: TIMEOUT_SECONDS, signal: abortSignal },
  });
  const spawn = createSpawn(client, place);

  const restricted: Restricted = {
    description: `A Linux container: an instance of the workload ${workload} of tenancy. Relative paths begin at ${folder}.`,
    readFile: async ({ path, abortSignal }) => (await read(path, abortSignal))?.body ?? null,
    async readBinaryFile({ path, abortSignal }) {
      const file = await read(path, abortSignal);
      return file === undefined ? null : new Uint8Array(await file.arrayBuffer());
    },
    async readTextFile({ path, encoding = "utf-8", startLine = 1, endLine, abortSignal }) {
      const file = await read(path, abortSignal);
      if (file === undefined) return null;
      const text = new TextDecoder(encoding as "utf-8").decode(await file.arrayBuffer());
      if (startLine === 1 && endLine === undefined) return text;
      return text
        .split(/(?<=\n)/)
        .slice(startLine - 1, endLine)
        .join("");
    },
    writeFile: (file) => write(file, file.content),
    writeBinaryFile: (file) => write(file, new Uint8Array(file.content)),
    writeTextFile: (file) =>
      write(file, new Uint8Array(Buffer.from(file.content, (file.encoding ?? "utf-8") as "utf-8"))),
    spawn: (command) => spawn(command.command, optionsOf(command)),
    async run(command) {
      const result = await client.run(place, shell(command.command), optionsOf(command));
      return { ...outputOf(result), exitCode: exitCodeOf(result) };
    },
  };

  async function getPortUrl({ port, protocol }: Parameters<Session["getPortUrl"]>[0]): Promise<string> {
    const body = { workload, port };
    const { url } = await client.call("POST /api/v1/tenants/{id}/links", { path: { id: tenant }, body });
    return protocol === "ws" ? url.replace(/^http/, "ws") : url;
  }

  const stop = () => end(client, place);
  return {
    ...restricted,
    id: idOf(place),
    defaultWorkingDirectory: folder,
    ports,
    getPortUrl,
    getPortEndpoint: async (port) => ({ url: await getPortUrl(port) }),
    stop,
    async destroy() {
      await stop();
      if (isOwn) await orUndefined(client.snapshots.remove(tenant, workload));
    },
    // The harness would go on without this method, as if the policy held.
    async setNetworkPolicy() {
      throw new Error(
        "Cannot set the network policy of a session: network.access of the workload says what it reaches",
      );
    },
    restricted: () => restricted,
  };
}
