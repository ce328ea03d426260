import { type ApiClient, createApiClient } from "../kubernetes/api-client.ts";
import { logTail } from "../process/log-tail.ts";
import type { Program } from "../process/start-program.ts";
import { waitUntil } from "../process/wait-until.ts";

export interface WaitForNodeOptions {
  kubeconfigPath: string;
  nodeName: string;
  /** All that the cluster consists of; when one of them ends, so does the wait. */
  programs: readonly Program[];
}

interface Node {
  spec: { taints?: { key: string }[] };
  status?: { conditions?: { type: string; status: string; message?: string }[] };
}

const LIMIT_MS = 180_000;

/**
 * Resolves when a pod can be created and will be started: the API server is ready, the node is and has no taint that
 * says otherwise, and the default service account is there.
 *
 * @throws Error with the end of a log when a program has ended or the time is over
 */
export async function waitForNode({ kubeconfigPath, nodeName, programs }: WaitForNodeOptions): Promise<void> {
  const client = createApiClient(kubeconfigPath);
  let missing = "";
  try {
    await waitUntil(
      async () => {
        const ended = programs.find((program) => program.ending() !== undefined);
        if (ended) throw new Error(`Cannot start ${ended.name}: ${ended.ending()}\n${logTail(ended.logPath)}`);
        missing = await whatIsMissing(client, nodeName);
        return missing === "";
      },
      {
        what: `the node ${nodeName}`,
        limitMs: LIMIT_MS,
        explain: () =>
          [missing, ...programs.filter(({ name }) => name === "kubelet").map(({ logPath }) => logTail(logPath))].join(
            "\n",
          ),
      },
    );
  } finally {
    client.close();
  }
}

async function whatIsMissing(client: ApiClient, nodeName: string): Promise<string> {
  const node = await client.call({ method: "GET", path: `/api/v1/nodes/${nodeName}` });
  if (node.status !== 200) return `the node is not registered (status ${node.status})`;
  const { spec, status } = JSON.parse(node.text) as Node;
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status !== "True") return `the node is not ready: ${ready?.message ?? "it has not said why"}`;
  const taint = spec.taints?.find(({ key }) => key.startsWith("node.kubernetes.io/"));
  if (taint !== undefined) return `the node is tainted with ${taint.key}`;
  const account = await client.call({ method: "GET", path: "/api/v1/namespaces/default/serviceaccounts/default" });
  if (account.status !== 200) return "the default service account is not there";
  const { status: readiness, text } = await client.call({ method: "GET", path: "/readyz?verbose" });
  return readiness === 200 ? "" : `kube-apiserver is not ready:\n${text}`;
}
