import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { type IssuedCertificate, openAuthority } from "./authority.ts";

export interface WriteKubeconfigOptions {
  path: string;
  /** Name of the context, cluster and user in the file. */
  name: string;
  server: string;
  /** PEM of the authority that signed the server's certificate. */
  authority: string;
  credential: Pick<IssuedCertificate, "certificate" | "key"> | { token: string };
}

/** Writes a kubeconfig that needs no other file, readable by the user only, and returns its path. */
export function writeKubeconfig(options: WriteKubeconfigOptions): string {
  const { name, path, credential } = options;
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  const content = stringify(
    {
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        { name, cluster: { server: options.server, "certificate-authority-data": base64(options.authority) } },
      ],
      users: [
        {
          name,
          user:
            "token" in credential
              ? { token: credential.token }
              : {
                  "client-certificate-data": base64(credential.certificate),
                  "client-key-data": base64(credential.key),
                },
        },
      ],
      contexts: [{ name, context: { cluster: name, user: name } }],
      "current-context": name,
    },
    { lineWidth: 0 },
  );
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, content, { mode: 0o600 });
  renameSync(temporary, path);
  return path;
}

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
export async function clientCertificate(
  cluster: { folder: string; server: string },
  options: ClientCertificateOptions,
): Promise<ClientCertificate> {
  const pki = join(cluster.folder, "pki");
  const authority = await openAuthority(pki);
  const fileName = `client-${[options.user, ...(options.groups ?? []), options.days ?? ""].join("-")}`.replaceAll(
    /[^a-z0-9.-]/gi,
    "_",
  );
  const client = await authority.issue({
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
    credential: client,
  });
  return { ...client, kubeconfigPath };
}
