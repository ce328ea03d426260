/** Where redirected connections arrive, on loopback alone. */
export const REDIRECT_PORT = 15443;

/** Where readiness and `/metrics` are served, on every address of the pod. */
export const HEALTH_PORT = 15021;

/** Path of the readiness check on {@link HEALTH_PORT}. */
export const READY_PATH = "/ready";

/** The proxy's container. */
export const PROXY_CONTAINER = "tenancy-egress";

/** The init container that loads the redirect, where no other of ours does it. */
export const REDIRECT_CONTAINER = "tenancy-redirect";

/** Where the workload's container finds the trust bundle, read-only: in no image's way. */
export const TRUST_FOLDER = "/.tenancy-trust";

/** Public authorities and the workload's own, as PEM. */
export const TRUST_BUNDLE = `${TRUST_FOLDER}/ca-bundle.pem`;

/** Files of the proxy, as its configuration and its supervisor name them. */
export interface ProxyFolders {
  /**
   * What the operator renders, as the kubelet lays volumes out, so that all of it changes at once: `haproxy.cfg`,
   * `values.list`, `ca.pem`, `extra-ca.pem`, `leaves/`, `values/`.
   */
  readonly settings: string;
  /** The proxy's own, writable by nothing else: sockets, and the authorities that it trusts. */
  readonly run: string;
}

/** Those folders in the sidecar. */
export const proxyFolders: ProxyFolders = { settings: "/etc/tenancy-egress", run: "/run/tenancy-egress" };

/** Where the sidecar finds what the cluster says of its pod, and how it follows: a warm pod has a tenant only later. */
export const POD_FOLDER = "/etc/tenancy-pod";

/** Holds the pod's tenant; empty while it has none. */
export const TENANT_FILE = `${POD_FOLDER}/tenant`;

/** Public authorities in the proxy's image, as Debian's ca-certificates has them. */
export const PUBLIC_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt";

/**
 * Authorities that certificates of upstream servers are verified with: the public ones and those that a cluster adds.
 */
export function upstreamAuthorities({ run }: ProxyFolders): string {
  return `${run}/upstream-ca.pem`;
}
