import { ApiError } from "../../crds/client/api-error.ts";
import { secrets, serviceAccounts } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";

/** What pods of the namespace pull with. */
export interface PullSecrets {
  /** Contents of the Secrets, as JSON texts. */
  readonly logins: readonly string[];
  /** Names of Secrets that the operator may not read. */
  readonly forbidden: readonly string[];
  /** Names of Secrets that do not exist. */
  readonly missing: readonly string[];
  /** Names of Secrets of another type, which kubelets do not use. */
  readonly unsuitable: readonly string[];
}

/** Of the pods, which name no other (https://kubernetes.io/docs/concepts/security/service-accounts/). */
const ACCOUNT = "default";
const PULL_SECRET_TYPE = "kubernetes.io/dockerconfigjson";
const KEY = ".dockerconfigjson";

/**
 * Reads the Secrets that a pod pulls its image with. One that cannot be used is left out, as the kubelet does.
 *
 * @param options.named by the pod itself. @default those of the ServiceAccount `default`
 */
export async function readPullSecrets(
  cluster: Cluster,
  { named, signal }: { named?: readonly string[] | undefined; signal?: AbortSignal | undefined },
): Promise<PullSecrets> {
  const names = named ?? (await accountSecrets(cluster, signal));
  const found = {
    logins: [] as string[],
    forbidden: [] as string[],
    missing: [] as string[],
    unsuitable: [] as string[],
  };
  for (const name of names) {
    try {
      const secret = await cluster(secrets).named(name).find({ signal });
      const content = secret?.type === PULL_SECRET_TYPE ? secret.data?.[KEY] : undefined;
      if (secret === undefined) found.missing.push(name);
      else if (content === undefined) found.unsuitable.push(name);
      else found.logins.push(Buffer.from(content, "base64").toString("utf8"));
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 403)) throw error;
      found.forbidden.push(name);
    }
  }
  return found;
}

/** Why Secrets cannot be used, as sentences without an end. */
export function pullSecretProblems({ forbidden, missing, unsuitable }: PullSecrets): string[] {
  return [
    ...missing.map((name) => `the Secret ${name} does not exist`),
    ...unsuitable.map((name) => `the Secret ${name} is not of the type ${PULL_SECRET_TYPE}, with the key ${KEY}`),
    ...forbidden.map((name) => `the operator may not read the Secret ${name}`),
  ];
}

async function accountSecrets(cluster: Cluster, signal: AbortSignal | undefined): Promise<string[]> {
  const account = await cluster(serviceAccounts).named(ACCOUNT).find({ signal });
  return (account?.imagePullSecrets ?? []).flatMap(({ name }) => name ?? []);
}
