import { execFile } from "node:child_process";
import * as v from "valibot";
import type { Clock } from "../clock.ts";
import type { ClusterConfig, Credential, CredentialSource, ExecPlugin } from "./cluster-config.ts";

const execCredential = v.object({
  apiVersion: v.string(),
  kind: v.literal("ExecCredential"),
  status: v.object({
    token: v.optional(v.string()),
    clientCertificateData: v.optional(v.string()),
    clientKeyData: v.optional(v.string()),
    expirationTimestamp: v.optional(v.pipe(v.string(), v.isoTimestamp())),
  }),
});

/** A plugin that prompts a person would never end, because there is no terminal. */
const pluginTimeoutMs = 60_000;

/**
 * The credential that a kubeconfig's `exec` plugin prints. It is kept until it expires or the server refuses it. What
 * the plugin does not print comes from `base`.
 *
 * Follows https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
 */
export function createExecCredentials(options: {
  config: ClusterConfig;
  plugin: ExecPlugin;
  base: CredentialSource;
  clock: Clock;
}): CredentialSource {
  const { config, plugin, base, clock } = options;
  let credential: Credential | undefined;
  let expiresAt = Number.POSITIVE_INFINITY;
  let running: Promise<Credential> | undefined;

  async function run(): Promise<Credential> {
    const rest = await base.current();
    const status = parse(await print(plugin, execInfo(config, plugin, rest)), plugin);
    expiresAt =
      status.expirationTimestamp === undefined ? Number.POSITIVE_INFINITY : Date.parse(status.expirationTimestamp);
    credential = {
      authorization: status.token === undefined ? rest.authorization : `Bearer ${status.token}`,
      ca: rest.ca,
      certificate: status.clientCertificateData ?? rest.certificate,
      key: status.clientKeyData ?? rest.key,
    };
    return credential;
  }

  return {
    current() {
      if (credential !== undefined && clock.now() < expiresAt) return credential;
      running ??= run().finally(() => {
        running = undefined;
      });
      return running;
    },
    invalidate() {
      base.invalidate();
      credential = undefined;
    },
  };
}

function execInfo(config: ClusterConfig, plugin: ExecPlugin, rest: Credential): string {
  const cluster = {
    server: config.server,
    ...(config.tlsServerName !== undefined && { "tls-server-name": config.tlsServerName }),
    ...(config.insecureSkipTlsVerify && { "insecure-skip-tls-verify": true }),
    ...(rest.ca !== undefined && { "certificate-authority-data": Buffer.from(rest.ca).toString("base64") }),
  };
  return JSON.stringify({
    apiVersion: plugin.apiVersion,
    kind: "ExecCredential",
    spec: { interactive: false, ...(plugin.provideClusterInfo && { cluster }) },
  });
}

function print(plugin: ExecPlugin, info: string): Promise<string> {
  const env = { ...process.env, ...plugin.env, KUBERNETES_EXEC_INFO: info };
  return new Promise((resolve, reject) => {
    execFile(plugin.command, [...(plugin.args ?? [])], { env, timeout: pluginTimeoutMs }, (cause, stdout, stderr) => {
      if (cause === null) resolve(stdout);
      else reject(failure(plugin, stderr.trim() || cause.message, cause));
    });
  });
}

function parse(output: string, plugin: ExecPlugin): v.InferOutput<typeof execCredential>["status"] {
  let json: unknown;
  try {
    json = JSON.parse(output);
  } catch (cause) {
    throw failure(plugin, "it printed no JSON", cause);
  }
  const result = v.safeParse(execCredential, json);
  if (!result.success) throw failure(plugin, v.summarize(result.issues), result.issues);
  const { apiVersion, status } = result.output;
  if (apiVersion !== plugin.apiVersion)
    throw failure(plugin, `it printed ${apiVersion} where ${plugin.apiVersion} was asked for`);
  if ((status.clientCertificateData === undefined) !== (status.clientKeyData === undefined))
    throw failure(plugin, "it printed one of certificate and key without the other");
  if (status.token === undefined && status.clientKeyData === undefined)
    throw failure(plugin, "it printed no credential");
  return status;
}

function failure(plugin: ExecPlugin, what: string, cause?: unknown): Error {
  const hint = plugin.installHint === undefined ? "" : ` (${plugin.installHint})`;
  return new Error(`Cannot get a credential from ${plugin.command}: ${what}${hint}`, { cause });
}
