import { randomUUID } from "node:crypto";
import { type CommandResult, defineProvider, type RunCommandOptions } from "@computesdk/provider";
import { type Client, createClient, type Place } from "../../client/index.ts";
import {
  end,
  exitCodeOf,
  idOf,
  isStatus,
  keyOf,
  orUndefined,
  outputOf,
  refuse,
  type SandboxKey,
  shell,
  WAIT_SECONDS,
} from "../sandbox.ts";

/** https://www.computesdk.com */
export interface TenancyConfig {
  /** Of the API. */
  readonly url: string;
  /** A key of the role `platform`, or one of tenants whose ids begin with `computesdk-`. */
  readonly apiKey?: string;
  /** The workload of sandboxes that are created without a `templateId`, and the one that is listed. */
  readonly workload?: string;
  /** @default the runtime's */
  readonly fetch?: NonNullable<Parameters<typeof createClient>[0]["fetch"]>;
}

/** A sandbox: the claim of a tenant. */
export interface TenancySandbox extends SandboxKey {
  readonly client: Client;
  readonly createdAt: Date;
}

/** Tenants that the provider makes begin with it. */
const OWN = "computesdk-";
/**
 * A label of the claims of tenants that the provider has made: the rest of the tenant's id. Their files go with the
 * sandbox. The id proves nothing, since a caller can name a tenant that begins so.
 */
const MADE = "computesdk";

function clientOf({ url, apiKey, fetch }: TenancyConfig): Client {
  return createClient({ url, ...(apiKey !== undefined && { key: apiKey }), ...(fetch !== undefined && { fetch }) });
}

/** An Active claim has the time. */
const createdOf = (time: string | undefined): Date => (time === undefined ? new Date() : new Date(time));
const placeOf = ({ tenant, workload }: SandboxKey): Place => ({ tenant, workload });

async function claimOf(client: Client, { tenant: id, workload }: SandboxKey) {
  return await orUndefined(client.call("GET /api/v1/tenants/{id}/claims/{workload}", { path: { id, workload } }));
}

async function isMade(client: Client, key: SandboxKey): Promise<boolean> {
  const made = (await claimOf(client, key))?.labels?.[MADE];
  return made !== undefined && key.tenant === `${OWN}${made}`;
}

async function run(sandbox: TenancySandbox, line: string, options: RunCommandOptions = {}): Promise<CommandResult> {
  const { cwd, env, timeout, background, onStdout, onStderr } = options;
  const command = shell(line);
  const startedAt = performance.now();
  const timeoutSeconds = timeout === undefined ? undefined : Math.ceil(timeout / 1000);
  if (background === true) {
    const { tenant: id, workload } = sandbox;
    await sandbox.client.call("POST /api/v1/tenants/{id}/instances/{workload}/processes", {
      path: { id, workload },
      body: {
        ...{ command, background },
        ...(cwd !== undefined && { cwd }),
        ...(env !== undefined && { env }),
        ...(timeoutSeconds !== undefined && { timeoutSeconds }),
      },
    });
    return { stdout: "", stderr: "", exitCode: 0, durationMs: performance.now() - startedAt };
  }
  const result = await sandbox.client.run(placeOf(sandbox), command, { cwd, env, timeoutSeconds, onStdout, onStderr });
  return { ...outputOf(result), exitCode: exitCodeOf(result), durationMs: performance.now() - startedAt };
}

/**
 * A provider for ComputeSDK.
 *
 * ```ts
 * const compute = createCompute({ provider: tenancy({ url: "http://127.0.0.1:8080", workload: "desk" }) });
 * ```
 */
export const tenancy = defineProvider<TenancySandbox, TenancyConfig>({
  name: "tenancy",
  methods: {
    sandbox: {
      async create(config, { templateId, snapshotId, metadata, envs, timeout, name, image, signal, ...others } = {}) {
        refuse(
          { name, image },
          {
            name: "give metadata.tenant, the id of the tenant",
            image: "the workload says the image; name one with templateId",
          },
        );
        refuse(others, { namespace: "the edge has one", directory: "the image says it", runtime: "the image has it" });
        const workload = templateId ?? config.workload;
        if (workload === undefined)
          throw new Error(
            "Cannot create a sandbox without a workload: give templateId, or workload in the configuration",
          );
        const made = metadata?.tenant === undefined ? randomUUID() : undefined;
        const tenant = made === undefined ? String(metadata?.tenant) : `${OWN}${made}`;
        const client = clientOf(config);
        const body = {
          ...(made !== undefined && { labels: { [MADE]: made } }),
          ...(envs !== undefined && { env: envs }),
          ...(timeout !== undefined && { expiresInSeconds: Math.ceil(timeout / 1000) }),
          ...(snapshotId !== undefined && { resume: { version: snapshotId } }),
        };
        const claim = await client.claim(tenant, workload, body, { waitSeconds: WAIT_SECONDS, signal });
        const sandbox = { tenant, workload, client, createdAt: createdOf(claim.claimedAt) };
        return { sandbox, sandboxId: idOf(sandbox) };
      },
      async getById(config, sandboxId) {
        const client = clientOf(config);
        const key = keyOf(sandboxId);
        const claim = await claimOf(client, key);
        if (claim === undefined) return null;
        return { sandbox: { ...key, client, createdAt: createdOf(claim.requestedAt) }, sandboxId };
      },
      async list(config) {
        const client = clientOf(config);
        const claims = await client.claims({
          phase: "Active",
          ...(config.workload !== undefined && { workload: config.workload }),
        });
        return claims.map(({ tenantId: tenant, workloadRef: workload, createdAt }) => {
          const sandbox = { tenant, workload, client, createdAt: new Date(createdAt) };
          return { sandbox, sandboxId: idOf(sandbox) };
        });
      },
      async destroy(config, sandboxId) {
        const client = clientOf(config);
        const key = keyOf(sandboxId);
        const erases = await isMade(client, key);
        await end(client, key);
        if (erases) await orUndefined(client.snapshots.remove(key.tenant, key.workload));
      },
      runCommand: run,
      streamCommand: run,
      async getInfo(sandbox) {
        const claim = await claimOf(sandbox.client, sandbox);
        const isStarting = claim?.phase === "Pending" || claim?.phase === "Active";
        const hasFailed = claim?.phase === "Error" || claim?.phase === "ReleaseFailed";
        const { tenant, workload, createdAt } = sandbox;
        return {
          ...{ id: idOf(sandbox), provider: "tenancy", createdAt },
          status: isStarting ? "running" : hasFailed ? "error" : "stopped",
          timeout: claim?.expiresAt === undefined ? 0 : new Date(claim.expiresAt).getTime() - createdAt.getTime(),
          metadata: { tenant, workload, ...(claim && { phase: claim.phase }) },
        };
      },
      async getUrl({ client, tenant: id, workload }, { port, protocol }) {
        const body = { workload, port };
        const { url } = await client.call("POST /api/v1/tenants/{id}/links", { path: { id }, body });
        return protocol === undefined ? url : url.replace(/^https?(?=:)/, protocol);
      },
      filesystem: {
        readFile: (sandbox, path) => sandbox.client.files.readText(placeOf(sandbox), path),
        async writeFile(sandbox, path, content) {
          await sandbox.client.files.write(placeOf(sandbox), path, content);
        },
        async mkdir(sandbox, path) {
          await sandbox.client.files.mkdir(placeOf(sandbox), path);
        },
        async readdir(sandbox, path) {
          const entries = await sandbox.client.files.list(placeOf(sandbox), path);
          return entries.map((entry) => ({
            name: entry.path.slice(entry.path.lastIndexOf("/") + 1),
            type: entry.type === "directory" ? "directory" : "file",
            size: entry.sizeBytes,
            modified: new Date(entry.modifiedAt),
          }));
        },
        async exists(sandbox, path) {
          try {
            await sandbox.client.files.stat(placeOf(sandbox), path);
            return true;
          } catch (error) {
            if (isStatus(error, 404)) return false;
            throw error;
          }
        },
        remove: (sandbox, path) => sandbox.client.files.remove(placeOf(sandbox), path, { recursive: true }),
      },
    },
  },
});
