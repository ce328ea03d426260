import { renameSync, writeFileSync } from "node:fs";
import { stringify } from "yaml";
import type { IssuedCertificate } from "./authority.ts";

export interface WriteKubeconfigOptions {
  path: string;
  /** Name of the context, cluster and user in the file. */
  name: string;
  server: string;
  /** PEM of the authority that signed the server's certificate. */
  authority: string;
  client: Pick<IssuedCertificate, "certificate" | "key">;
}

/** Writes a kubeconfig that needs no other file, readable by the user only, and returns its path. */
export function writeKubeconfig(options: WriteKubeconfigOptions): string {
  const { name, path } = options;
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
          user: {
            "client-certificate-data": base64(options.client.certificate),
            "client-key-data": base64(options.client.key),
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
