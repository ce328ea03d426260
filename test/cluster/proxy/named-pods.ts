import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Change } from "../../../crds/client/watch/informer.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { NAMESPACE } from "../tenancy.ts";

/**
 * The program of every pod, on all loopback addresses: it answers with the tenant whose pod has the address. Whose that
 * is, the API server says after each connection has opened; a pod that goes takes its connections with it.
 */
export interface NamedPods {
  readonly port: number;
  /** Answers a request; the default says `<tenant>`. */
  onRequest: (tenant: string, request: IncomingMessage, response: ServerResponse, uid: string) => void;
  /** Connections so far. */
  connections(): number;
  /** Takes what a watch of pods shows. */
  onPod(change: Pick<Change<Pod>, "type" | "object">): void;
  stop(): Promise<void>;
}

/** Ends the first two numbers of the addresses that pods are given. */
export const POD_NETWORK = "127.76";

/** @param podAt for addresses that are used again: what has one as a connection opens @default the API server's word */
export async function startNamedPods(
  client: () => ClusterClient,
  podAt?: (address: string) => Pick<Pod, "metadata"> | undefined,
): Promise<NamedPods> {
  const owners = new Map<Socket, Promise<{ uid: string | undefined; tenant: string }>>();
  let connections = 0;

  async function ownerOf(address: string): Promise<{ uid: string | undefined; tenant: string }> {
    const holder = podAt?.(address);
    if (podAt !== undefined) return { uid: holder?.metadata.uid, tenant: tenantOf(holder) };
    const fieldSelector = `status.podIP=${address}`;
    const { items } = await client().list(pods, { namespace: NAMESPACE, fieldSelector });
    const [pod] = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    return { uid: pod?.metadata.uid, tenant: tenantOf(pod) };
  }

  function tenantOf(pod: Pick<Pod, "metadata"> | undefined): string {
    return pod?.metadata.labels?.[label.tenant] ?? "nobody";
  }

  const server = createServer((request, response) => {
    request.resume();
    void owners.get(request.socket)?.then(({ tenant, uid = "" }) => named.onRequest(tenant, request, response, uid));
  });
  server.on("connection", (socket) => {
    connections += 1;
    const owner = ownerOf(socket.localAddress ?? "");
    owner.catch(() => socket.destroy());
    owners.set(socket, owner);
    socket.on("close", () => owners.delete(socket));
  });
  server.listen(0, "0.0.0.0");
  await once(server, "listening");

  const named: NamedPods = {
    port: (server.address() as AddressInfo).port,
    onRequest: (tenant, _, response) => response.end(tenant),
    connections: () => connections,
    onPod({ type, object }) {
      if (type !== "deleted") return;
      for (const [socket, owner] of owners)
        void owner.then(({ uid }) => {
          if (uid === object.metadata.uid) socket.destroy();
        });
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return named;
}

/** Sends a request to a tenant's host at a front door, wherever that listens. */
export async function askAt(
  proxyUrl: string | undefined,
  host: string,
  options: { method?: string; path?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<{ status: number; text: string; headers: IncomingMessage["headers"] }> {
  const { request } = await import("node:http");
  const { hostname, port } = new URL(proxyUrl ?? "");
  const sent = request({
    hostname,
    port,
    method: options.method ?? "GET",
    path: options.path ?? "/",
    headers: { host, ...options.headers },
    agent: false,
    ...(options.signal !== undefined && { signal: options.signal }),
  });
  sent.end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode ?? 0, text, headers: response.headers };
}
