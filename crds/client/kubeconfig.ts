import { dirname, resolve } from "node:path";
import * as v from "valibot";
import { parse } from "yaml";

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

/** An entry, and the folder against which its relative paths are meant. */
export interface Located<T> {
  readonly value: T;
  readonly folder: string;
}

export type KubeconfigCluster = v.InferOutput<typeof cluster>;
export type KubeconfigUser = v.InferOutput<typeof user>;
export type KubeconfigContext = v.InferOutput<typeof context>;

/** One or several kubeconfig files as one: of what two files name, the first counts. */
export interface Kubeconfig {
  currentContext: string | undefined;
  readonly clusters: Map<string, Located<KubeconfigCluster>>;
  readonly users: Map<string, Located<KubeconfigUser>>;
  readonly contexts: Map<string, KubeconfigContext>;
}

/**
 * Reads kubeconfig files, the most important first.
 *
 * Follows https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
 *
 * @throws Error when one is not YAML or not a kubeconfig, naming it
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
