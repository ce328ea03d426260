import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { LocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { startClusterDns } from "../isolation/cluster-dns.ts";
import type { UpstreamSettings } from "./messages.ts";
import { reply, testProgram } from "./reply.ts";
import { upstreamCertificates } from "./upstream-certificates.ts";

/**
 * Starts servers on this machine for names that a cluster's pods then find there.
 *
 * @param records of names that lead elsewhere
 * @returns the servers, and what `npm start` needs to know of them
 */
export async function startUpstream(
  local: LocalCluster,
  names: readonly string[],
  records: Readonly<Record<string, string[]>> = {},
): Promise<{ upstream: ChildProcess; env: Record<string, string> }> {
  const { hostAddress, policies } = local;
  const { certificates, authority } = await upstreamCertificates([...names]);
  const all = { ...Object.fromEntries(names.map((name) => [name, [hostAddress]])), ...records };
  // Where policies are enforced they allow the cluster's own DNS alone, which is a pod.
  if (policies.enforced) await startClusterDns(local, all);
  const [program = "", ...rest] = testProgram(join(import.meta.dirname, "upstream-program.ts"));
  const upstream = spawn(program, rest, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const resolvers = policies.enforced ? [] : [hostAddress];
  upstream.send({ certificates, records: all, resolvers, host: hostAddress } satisfies UpstreamSettings);
  await reply(upstream, "the upstream servers");
  const env = { TENANCY_EGRESS_PRIVATE_RANGES: `${hostAddress}/32`, TENANCY_EGRESS_AUTHORITIES: authority };
  return { upstream, env };
}
