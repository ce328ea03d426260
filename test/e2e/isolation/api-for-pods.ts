import { startTcpProxy, type TcpProxy } from "../../../scripts/cluster/process/tcp-proxy.ts";

/** One that the policies of `manifests/base` let the operator and the edge reach. */
const PORT = 6443;

/**
 * Passes connections to the address by which pods reach this machine on to the API server, which listens on loopback
 * alone: nothing of the local cluster itself gives pods a way to it.
 */
export function apiForPods({ hostAddress, server }: { hostAddress: string; server: string }): Promise<TcpProxy> {
  return startTcpProxy({ port: Number(new URL(server).port) }, { host: hostAddress, port: PORT });
}
