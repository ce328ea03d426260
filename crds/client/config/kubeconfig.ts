import { dirname, resolve } from "node:path";
import * as v from "valibot";
import { parse } from "yaml";
import type { ClusterConfig, ExecPlugin } from "./cluster-config.ts";

const text = v.nullish(v.string());

const cluster = v.object({
  server: text,
  "certificate-authority": text,
  "certificate-authority-data": text,
  "insecure-skip-tls-verify": v.nullish(v.boolean()),
  "tls-server-name": text,
  "proxy-url": text,
});

const exec = v.object({
  apiVersion: v.string(),
  command: v.string(),
  args: v.nullish(v.array(v.string())),
  env: v.nullish(v.array(v.object({ name: v.string(), value: v.string() }))),
  installHint: text,
  provideClusterInfo: v.nullish(v.boolean()),
});

const user = v.object({
  "client-certificate": text,
  "client-certificate-data": text,
  "client-key": text,
  "client-key-data": text,
  token: text,
  tokenFile: text,
  exec: v.nullish(exec),
  username: text,
  as: text,
  "auth-provider": v.nullish(v.unknown()),
});

const context = v.object({ cluster: text, user: text, namespace: text });

const kubeconfigFile = v.object({
  "current-context": text,
  clusters: v.nullish(v.array(v.object({ name: v.string(), cluster: v.nullish(cluster) }))),
  users: v.nullish(v.array(v.object({ name: v.string(), user: v.nullish(user) }))),
  contexts: v.nullish(v.array(v.object({ name: v.string(), context: v.nullish(context) }))),
});

/** An entry, and the folder that its relative paths start from. */
interface Located<T> {
  readonly value: T;
  readonly folder: string;
}

type KubeconfigCluster = v.InferOutput<typeof cluster>;
type KubeconfigUser = v.InferOutput<typeof user>;
type KubeconfigContext = v.InferOutput<typeof context>;

/** One or several kubeconfig files, merged. If two files have an entry of the same name, the first file's counts. */
export interface Kubeconfig {
  currentContext: string | undefined;
  readonly clusters: Map<string, Located<KubeconfigCluster>>;
  readonly users: Map<string, Located<KubeconfigUser>>;
  readonly contexts: Map<string, KubeconfigContext>;
}

/**
 * Reads kubeconfig files, the most important first.
 *
 * Follows
 * https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
 *
 * @throws Error that names the file which is not YAML or not a kubeconfig
 */
export function mergeKubeconfigs(files: readonly { path: string; content: string }[]): Kubeconfig {
  const merged: Kubeconfig = { currentContext: undefined, clusters: new Map(), users: new Map(), contexts: new Map() };
  for (const { path, content } of files) {
    const folder = dirname(resolve(path));
    const parsed = parseKubeconfig(path, content);
    merged.currentContext ??= parsed["current-context"] || undefined;
    for (const entry of parsed.clusters ?? [])
      addFirst(merged.clusters, entry.name, { value: entry.cluster ?? {}, folder });
    for (const entry of parsed.users ?? []) addFirst(merged.users, entry.name, { value: entry.user ?? {}, folder });
    for (const entry of parsed.contexts ?? []) addFirst(merged.contexts, entry.name, entry.context ?? {});
  }
  return merged;
}

function addFirst<T>(entries: Map<string, T>, name: string, value: T): void {
  if (!entries.has(name)) entries.set(name, value);
}

function parseKubeconfig(path: string, content: string): v.InferOutput<typeof kubeconfigFile> {
  let document: unknown;
  try {
    document = parse(content);
  } catch (cause) {
    throw new Error(`Cannot read the kubeconfig ${path}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
  const result = v.safeParse(kubeconfigFile, document ?? {});
  if (!result.success) throw new Error(`Cannot read the kubeconfig ${path}: ${v.summarize(result.issues)}`);
  return result.output;
}

const execApiVersions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

const anonymous: Located<KubeconfigUser> = { value: {}, folder: "" };

/**
 * The configuration of one context of a kubeconfig: the current context, unless another is named.
 *
 * @throws Error if the context is missing or incomplete, or needs what is not supported
 */
export function kubeconfigContext(
  kubeconfig: Kubeconfig,
  options: { context?: string | undefined; source: string },
): ClusterConfig {
  const { source } = options;
  const fail = (what: string): Error => new Error(`Cannot use the kubeconfig ${source}: ${what}`);
  const name = options.context ?? kubeconfig.currentContext;
  if (name === undefined) throw fail("it has no current-context");
  const context = kubeconfig.contexts.get(name);
  if (context === undefined) throw fail(`it has no context "${name}", only ${quoted(kubeconfig.contexts.keys())}`);
  const cluster = kubeconfig.clusters.get(context.cluster ?? "");
  if (cluster === undefined)
    throw fail(`the context "${name}" names the cluster "${context.cluster ?? ""}", which does not exist`);
  const user = context.user ? kubeconfig.users.get(context.user) : anonymous;
  if (user === undefined) throw fail(`the context "${name}" names the user "${context.user}", which does not exist`);
  const unsupported = unsupportedField(cluster.value, user.value);
  if (unsupported !== undefined) throw fail(`the context "${name}" needs ${unsupported}, which is not supported`);
  if (!cluster.value.server) throw fail(`the cluster "${context.cluster}" has no server`);
  return {
    server: cluster.value.server,
    ...trust(cluster),
    ...identity(user),
    exec: execPlugin(user, fail),
    namespace: context.namespace || undefined,
  };
}

/** Data in the kubeconfig wins over a file that it names. */
function trust({ value, folder }: Located<KubeconfigCluster>): Partial<ClusterConfig> {
  const caData = decoded(value["certificate-authority-data"]);
  return {
    caData,
    caFile: caData === undefined ? located(value["certificate-authority"], folder) : undefined,
    insecureSkipTlsVerify: value["insecure-skip-tls-verify"] ?? undefined,
    tlsServerName: value["tls-server-name"] || undefined,
  };
}

function identity({ value, folder }: Located<KubeconfigUser>): Partial<ClusterConfig> {
  const clientCertificateData = decoded(value["client-certificate-data"]);
  const clientKeyData = decoded(value["client-key-data"]);
  return {
    clientCertificateData,
    clientCertificateFile:
      clientCertificateData === undefined ? located(value["client-certificate"], folder) : undefined,
    clientKeyData,
    clientKeyFile: clientKeyData === undefined ? located(value["client-key"], folder) : undefined,
    token: value.token || undefined,
    tokenFile: located(value.tokenFile, folder),
  };
}

function execPlugin({ value, folder }: Located<KubeconfigUser>, fail: (what: string) => Error): ExecPlugin | undefined {
  const { exec } = value;
  if (!exec) return undefined;
  const { apiVersion, command, args, env, installHint, provideClusterInfo } = exec;
  if (!execApiVersions.includes(apiVersion))
    throw fail(`its exec plugin ${command} speaks ${apiVersion}, not ${execApiVersions.join(" or ")}`);
  return {
    apiVersion,
    // A bare name is looked up in PATH. A relative path starts from the kubeconfig's folder.
    command: command.includes("/") ? resolve(folder, command) : command,
    args: args ?? undefined,
    env: env ? Object.fromEntries(env.map(({ name, value }) => [name, value])) : undefined,
    installHint: installHint ?? undefined,
    provideClusterInfo: provideClusterInfo ?? undefined,
  };
}

/**
 * A field that changes how, or as whom, to connect. If it were ignored, the connection would not be the one that the
 * user configured.
 */
function unsupportedField(cluster: KubeconfigCluster, user: KubeconfigUser): string | undefined {
  if (cluster["proxy-url"]) return "proxy-url";
  if (user["auth-provider"]) return "auth-provider";
  if (user.username) return "a user name and password";
  if (user.as) return "impersonation";
  return undefined;
}

function located(path: string | null | undefined, folder: string): string | undefined {
  return path ? resolve(folder, path) : undefined;
}

function decoded(base64: string | null | undefined): string | undefined {
  return base64 ? Buffer.from(base64, "base64").toString("utf8") : undefined;
}

function quoted(names: Iterable<string>): string {
  return [...names].map((name) => `"${name}"`).join(", ") || "none";
}
