import type { ApiClient } from "../kubernetes/api-client.ts";
import { pause } from "../process/wait-until.ts";

export interface SimulatedNode {
  readonly name: string;
  readonly address: string;
  /** How many pods are bound to it. */
  pods: number;
  /** Whether it takes no new ones, by `kubectl cordon`. */
  isCordoned: boolean;
}

export const NODE_LABEL = "simulated.tenancy.dev/node";

/** Registers a ready node with room for that many pods, or refreshes the one that is there. */
export async function registerNode(client: ApiClient, node: SimulatedNode, pods: number): Promise<void> {
  const now = new Date().toISOString().replace(/\.\d+/, "");
  const room = { cpu: String(pods), memory: `${pods}Gi`, "ephemeral-storage": `${pods * 10}Gi`, pods: String(pods) };
  const status = {
    capacity: room,
    allocatable: room,
    conditions: [
      {
        type: "Ready",
        status: "True",
        reason: "KubeletReady",
        message: "simulated",
        lastHeartbeatTime: now,
        lastTransitionTime: now,
      },
    ],
    addresses: [
      { type: "InternalIP", address: node.address },
      { type: "Hostname", address: node.name },
    ],
    nodeInfo: {
      architecture: "amd64",
      bootID: "simulated",
      containerRuntimeVersion: "simulated://1",
      kernelVersion: "simulated",
      kubeProxyVersion: "simulated",
      kubeletVersion: "v1.0.0-simulated",
      machineID: node.name,
      operatingSystem: "linux",
      osImage: "simulated",
      systemUUID: node.name,
    },
  };
  const labels = { "kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", [NODE_LABEL]: "true" };
  const created = await client.call({
    method: "POST",
    path: "/api/v1/nodes",
    body: { apiVersion: "v1", kind: "Node", metadata: { name: node.name, labels }, status },
  });
  if (created.status === 409) {
    await expectSuccess(
      client.call({
        method: "PATCH",
        path: `/api/v1/nodes/${node.name}/status`,
        contentType: "application/merge-patch+json",
        body: { status },
      }),
      `refresh the node ${node.name}`,
    );
    return;
  }
  await expectSuccess(Promise.resolve(created), `register the node ${node.name}`);
}

/** Renews a node's lease, as the kubelet's heartbeat does. */
export async function renewLease(client: ApiClient, node: SimulatedNode): Promise<void> {
  const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
  const spec = {
    holderIdentity: node.name,
    leaseDurationSeconds: 40,
    renewTime: new Date().toISOString().replace("Z", "000Z"),
  };
  const renewed = await client.call({
    method: "PATCH",
    path: `${leases}/${node.name}`,
    contentType: "application/merge-patch+json",
    body: { spec },
  });
  if (renewed.status !== 404)
    return void (await expectSuccess(Promise.resolve(renewed), `renew the lease of ${node.name}`));
  await expectSuccess(
    client.call({
      method: "POST",
      path: leases,
      body: { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: node.name }, spec },
    }),
    `create the lease of ${node.name}`,
  );
}

/** Keeps up with which nodes are cordoned, until the signal is aborted. */
export async function followCordons(
  client: ApiClient,
  nodes: readonly SimulatedNode[],
  options: { onChange(): void; onTrouble(error: unknown): void; signal: AbortSignal },
): Promise<void> {
  const { onChange, onTrouble, signal } = options;
  const path = `/api/v1/nodes?watch=1&timeoutSeconds=300&labelSelector=${NODE_LABEL}%3Dtrue`;
  let waitMs = 100;
  while (!signal.aborted) {
    try {
      // Without a version to start from, it begins with all nodes as they are.
      await client.lines(path, onLine, signal);
      waitMs = 100;
    } catch (error) {
      if (signal.aborted) return;
      onTrouble(error);
    }
    await pause(waitMs, signal);
    waitMs = Math.min(waitMs * 2, 2000);
  }

  function onLine(line: Buffer): void {
    const { object } = JSON.parse(line.toString("utf8")) as {
      object: { metadata: { name?: string }; spec?: { unschedulable?: boolean } };
    };
    const node = nodes.find(({ name }) => name === object.metadata.name);
    const isCordoned = object.spec?.unschedulable === true;
    if (node === undefined || node.isCordoned === isCordoned) return;
    node.isCordoned = isCordoned;
    onChange();
  }
}

async function expectSuccess(answer: ReturnType<ApiClient["call"]>, action: string): Promise<void> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(`Cannot ${action}: status ${status} ${text.slice(0, 300)}`);
}
