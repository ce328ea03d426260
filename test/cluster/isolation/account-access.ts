import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { stringify } from "yaml";
import type { ControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import type { RunKubectl } from "./kubectl.ts";

/** How a program runs as a ServiceAccount. */
export interface AccountAccess {
  /** Comes before the program's own command. */
  readonly prefix: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** For clients in this process. */
  readonly kubeconfigPath: string;
  remove(): void;
}

/** Where a pod finds its account, https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ */
const IN_POD = "/var/run/secrets/kubernetes.io/serviceaccount";

// A mount namespace of its own hides this machine's /var/run and shows what a pod would see there.
const enterPod = [
  ...["unshare", "--mount", "--map-root-user", "--propagation", "private", "sh", "-c"],
  `mount -t tmpfs tmpfs /var/run && mkdir -p ${IN_POD} && mount --bind "$ACCOUNT_FOLDER" ${IN_POD} && exec "$@"`,
  "in-pod",
];

/** Whether programs can be shown a pod's files here: it takes root or user namespaces. */
export function canEnterPods(): boolean {
  const [command = "", ...parameters] = enterPod;
  return (
    spawnSync(command, [...parameters, "true"], { env: { ...process.env, ACCOUNT_FOLDER: tmpdir() } }).status === 0
  );
}

/**
 * Asks for a token of the account, and puts it where the kubelet would; where that is not possible, into a kubeconfig.
 */
export async function accountAccess(options: {
  cluster: ControlPlane;
  kubectl: RunKubectl;
  namespace: string;
  account: string;
}): Promise<AccountAccess> {
  const { cluster, kubectl, namespace, account } = options;
  const token = (await kubectl("-n", namespace, "create", "token", account, "--duration=1h")).trim();
  const authority = readFileSync(cluster.pki.authorityPath, "utf8");
  const folder = mkdtempSync(join(tmpdir(), `${account}-`));
  const home = join(folder, "home");
  mkdirSync(home);
  for (const [name, content] of Object.entries({ token, namespace, "ca.crt": authority }))
    writeFileSync(join(folder, name), content);
  const kubeconfigPath = join(folder, "kubeconfig");
  writeFileSync(
    kubeconfigPath,
    stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "c", cluster: { server: cluster.server, "certificate-authority": join(folder, "ca.crt") } }],
      users: [{ name: "u", user: { tokenFile: join(folder, "token") } }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
      "current-context": "x",
    }),
  );
  const { hostname, port } = new URL(cluster.server);
  const remove = (): void => rmSync(folder, { recursive: true });
  // The edge's image has kubectl on its path.
  const env = { PATH: `${dirname(await findKubectl())}:${process.env.PATH}`, HOME: home };
  if (!canEnterPods()) return { prefix: [], env: { ...env, KUBECONFIG: kubeconfigPath }, kubeconfigPath, remove };
  return {
    prefix: enterPod,
    env: { ...env, ACCOUNT_FOLDER: folder, KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port },
    kubeconfigPath,
    remove,
  };
}
