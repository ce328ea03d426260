import { join } from "node:path";
import { type IssuedCertificate, openAuthority } from "./pki/authority.ts";
import { writeKubeconfig } from "./pki/write-kubeconfig.ts";

export interface ClientCertificateOptions {
  /** Name of the Kubernetes user. */
  user: string;
  groups?: readonly string[];
  /** How long it is valid from now, in days; negative makes one that has expired. @default 3650 */
  days?: number;
}

export interface ClientCertificate extends IssuedCertificate {
  readonly kubeconfigPath: string;
}

/**
 * Returns a client certificate that an API server takes as the given user, and a kubeconfig that uses it.
 *
 * @param folder the cluster's folder
 */
export function clientCertificate(
  cluster: { folder: string; server: string },
  options: ClientCertificateOptions,
): ClientCertificate {
  const pki = join(cluster.folder, "pki");
  const authority = openAuthority(pki);
  const fileName = `client-${[options.user, ...(options.groups ?? []), options.days ?? ""].join("-")}`.replaceAll(
    /[^a-z0-9.-]/gi,
    "_",
  );
  const client = authority.issue({
    fileName,
    commonName: options.user,
    organizations: options.groups ?? [],
    purpose: "client",
    ...(options.days === undefined ? {} : { days: options.days }),
  });
  const kubeconfigPath = writeKubeconfig({
    path: join(pki, `${fileName}.kubeconfig`),
    name: options.user,
    server: cluster.server,
    authority: authority.certificate,
    client,
  });
  return { ...client, kubeconfigPath };
}
