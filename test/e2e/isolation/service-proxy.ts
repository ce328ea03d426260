import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { defineResource } from "../../../crds/resource.ts";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";

interface EndpointSlice extends KubernetesObject {
  readonly endpoints?: readonly { addresses: readonly string[]; conditions: { ready?: boolean } }[] | null;
  readonly ports?: readonly { port: number }[] | null;
}

const endpointSlices = defineResource<EndpointSlice>({
  group: "discovery.k8s.io",
  version: "v1",
  plural: "endpointslices",
  kind: "EndpointSlice",
});

/** The address of a Service, for a cluster that runs no kube-proxy. */
export interface ServiceProxy {
  readonly url: string;
  stop(): Promise<void>;
}

/** As seldom as kube-proxy writes its rules. */
const SYNC_MS = 1000;

/**
 * Leads each new connection to one of the endpoints that the cluster calls ready, as kube-proxy does: connections that
 * are there stay where they are, and one that is refused is not tried elsewhere.
 */
export async function startServiceProxy(
  client: Pick<ClusterClient, "list">,
  { namespace, name }: { namespace: string; name: string },
): Promise<ServiceProxy> {
  const ending = new AbortController();
  const sockets = new Set<Socket>();
  const labelSelector = `kubernetes.io/service-name=${name}`;
  let ready: { host: string; port: number }[] = [];
  let turn = 0;

  async function sync(): Promise<void> {
    const { items } = await client.list(endpointSlices, { namespace, labelSelector });
    ready = items.flatMap(({ endpoints, ports }) =>
      (endpoints ?? [])
        .filter(({ conditions }) => conditions.ready !== false)
        .map(({ addresses }) => ({ host: addresses[0] ?? "", port: ports?.[0]?.port ?? 0 })),
    );
  }

  async function follow(): Promise<void> {
    while (!ending.signal.aborted) {
      await pause(SYNC_MS, ending.signal);
      await sync();
    }
  }

  const server = createServer({ noDelay: true }, (inner) => {
    turn += 1;
    const endpoint = ready[turn % ready.length];
    if (endpoint === undefined) {
      inner.destroy();
      return;
    }
    const outer = connect({ ...endpoint, noDelay: true });
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.end();
      });
    }
  });
  await sync();
  const following = follow();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      ending.abort();
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await Promise.all([closed, following]);
    },
  };
}
