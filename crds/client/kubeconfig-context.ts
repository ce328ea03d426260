import { resolve } from "node:path";
import type { ClusterConfig, ExecPlugin } from "./cluster-config.ts";
import type { Kubeconfig, KubeconfigCluster, KubeconfigUser, Located } from "./kubeconfig.ts";

const execApiVersions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

const anonymous: Located<KubeconfigUser> = { value: {}, folder: "" };

/**
 * What a kubeconfig says about one context, the current one unless another is named.
 *
 * @throws Error when it is missing, incomplete, or asks for what is not supported
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
    throw fail(`the context "${name}" names the cluster "${context.cluster ?? ""}", which is not there`);
  const user = context.user ? kubeconfig.users.get(context.user) : anonymous;
  if (user === undefined) throw fail(`the context "${name}" names the user "${context.user}", which is not there`);
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
    // A bare name is looked up in PATH; a relative path is meant against the kubeconfig's folder.
    command: command.includes("/") ? resolve(folder, command) : command,
    args: args ?? undefined,
    env: env ? Object.fromEntries(env.map(({ name, value }) => [name, value])) : undefined,
    installHint: installHint ?? undefined,
    provideClusterInfo: provideClusterInfo ?? undefined,
  };
}

/** A field that would change how or as whom to connect; to ignore it would connect in another way than the user thinks. */
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
