import { ApiError } from "../../crds/client/api-error.ts";
import { secrets, serviceAccounts } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";

/** What pods of the namespace pull with. */
export interface PullSecrets {
  /** Contents of the Secrets, as JSON texts. */
  readonly logins: readonly string[];
  /** Names of Secrets that the operator may not read. */
  readonly forbidden: readonly string[];
}

/** Of the pods, which name no other (https://kubernetes.io/docs/concepts/security/service-accounts/). */
const ACCOUNT = "default";
const KEY = ".dockerconfigjson";

/**
 * Reads the Secrets that a pod pulls its image with. One that is missing is left out, as the kubelet does.
 *
 * @param options.named by the pod itself. @default those of the ServiceAccount `default`
 */
export async function readPullSecrets(
  cluster: Cluster,
  { named, signal }: { named?: string | undefined; signal: AbortSignal },
): Promise<PullSecrets> {
  const names = named === undefined ? await accountSecrets(cluster, signal) : [named];
  const logins: string[] = [];
  const forbidden: string[] = [];
  for (const name of names) {
    try {
      const content = (await cluster(secrets).named(name).find({ signal }))?.data?.[KEY];
      if (content !== undefined) logins.push(Buffer.from(content, "base64").toString("utf8"));
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 403)) throw error;
      forbidden.push(name);
    }
  }
  return { logins, forbidden };
}

async function accountSecrets(cluster: Cluster, signal: AbortSignal): Promise<string[]> {
  const account = await cluster(serviceAccounts).named(ACCOUNT).find({ signal });
  return (account?.imagePullSecrets ?? []).flatMap(({ name }) => name ?? []);
}
