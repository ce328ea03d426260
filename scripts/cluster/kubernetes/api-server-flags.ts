import type { Authority, IssuedCertificate } from "../pki/authority.ts";
import type { ServiceAccountKeys } from "../pki/service-account-keys.ts";
import { versionAtLeast } from "./version-at-least.ts";

export interface ApiServerFlagsOptions {
  version: string;
  folder: string;
  port: number;
  etcdUrl: string;
  authority: Authority;
  server: IssuedCertificate;
  admin: IssuedCertificate;
  serviceAccounts: ServiceAccountKeys;
  /** Prefix of a /16, such as `10.96`. */
  serviceNetwork: string;
  /** Whether a kubelet and the controllers are there too. */
  complete: boolean;
}

/** Returns the command line of an API server on loopback, for the given version of Kubernetes. */
export function apiServerFlags(options: ApiServerFlagsOptions): string[] {
  const { version, authority, server, admin, serviceAccounts } = options;
  return [
    `--etcd-servers=${options.etcdUrl}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${options.port}`,
    ...(versionAtLeast(version, "1.24") ? [] : ["--insecure-port=0"]),
    `--cert-dir=${options.folder}`,
    `--tls-cert-file=${server.certificatePath}`,
    `--tls-private-key-file=${server.keyPath}`,
    `--client-ca-file=${authority.certificatePath}`,
    `--service-account-key-file=${serviceAccounts.publicKeyPath}`,
    `--service-account-signing-key-file=${serviceAccounts.privateKeyPath}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-cluster-ip-range=${options.serviceNetwork}.0.0/16`,
    `--authorization-mode=${options.complete ? "Node,RBAC" : "RBAC"}`,
    "--allow-privileged",
    // Without the controllers nobody makes the service accounts that this plugin wants every pod to have.
    options.complete ? "--enable-admission-plugins=NodeRestriction" : "--disable-admission-plugins=ServiceAccount",
    `--kubelet-client-certificate=${admin.certificatePath}`,
    `--kubelet-client-key=${admin.keyPath}`,
    // Otherwise exec and logs look the node's name up in DNS.
    "--kubelet-preferred-address-types=InternalIP",
    "--endpoint-reconciler-type=none",
    // A single user on a small machine: fair queuing costs more than it protects.
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=3000",
    "--max-mutating-requests-inflight=1500",
    "--profiling=false",
  ];
}
