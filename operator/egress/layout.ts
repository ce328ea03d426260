/** The port for redirected connections, on loopback only. */
export const REDIRECT_PORT = 15443;

/** The port for readiness and `/metrics`, on all addresses of the pod. */
export const HEALTH_PORT = 15021;

/** Path of the readiness check on {@link HEALTH_PORT}. */
export const READY_PATH = "/ready";

/** The proxy's container. */
export const PROXY_CONTAINER = "tenancy-egress";

/** The init container that loads the redirect, unless it is merged with the snapshot tools. */
export const REDIRECT_CONTAINER = "tenancy-redirect";

/** The folder of the trust bundle in the workload's container, read-only. Its name is unlikely to be in an image. */
export const TRUST_FOLDER = "/.tenancy-trust";

/** Public authorities and the workload's own, as PEM. */
export const TRUST_BUNDLE = `${TRUST_FOLDER}/ca-bundle.pem`;

/** Folders of the proxy, for its configuration and its supervisor. */
export interface ProxyFolders {
  /**
   * The files that the operator renders, in one volume, so that all change at the same time: `haproxy.cfg`,
   * `values.list`, `ca.pem`, `extra-ca.pem`, `leaves/`, `values/`.
   */
  readonly settings: string;
  /** The proxy's own files, which nothing else can write: sockets, and the authorities that it trusts. */
  readonly run: string;
}

/** The folders in the sidecar. */
export const proxyFolders: ProxyFolders = { settings: "/etc/tenancy-egress", run: "/run/tenancy-egress" };

/** The pod's labels in the sidecar, from the downward API: a warm pod gets its tenant only later. */
export const POD_FOLDER = "/etc/tenancy-pod";

/** The file with the pod's tenant; empty while the pod has none. */
export const TENANT_FILE = `${POD_FOLDER}/tenant`;

/** Public authorities in the proxy's image, from Debian's ca-certificates. */
export const PUBLIC_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt";

/**
 * The authorities that verify certificates of upstream servers: the public ones and those that the cluster adds.
 */
export function upstreamAuthorities({ run }: ProxyFolders): string {
  return `${run}/upstream-ca.pem`;
}
