import type { Log } from "../log.ts";
import type { Clock } from "./clock.ts";
import type { ClusterConfig } from "./cluster-config.ts";
import type { CredentialSource } from "./credential.ts";
import { createExecCredentials } from "./exec-credentials.ts";
import { createFileCredentials } from "./file-credentials.ts";

/** Where the credential of a configuration comes from: the configuration, the files it names, or its plugin. */
export function createCredentials(options: {
  config: ClusterConfig;
  clock: Clock;
  log?: Log | undefined;
}): CredentialSource {
  const { config, clock } = options;
  const base = createFileCredentials(options);
  return config.exec === undefined ? base : createExecCredentials({ config, plugin: config.exec, base, clock });
}
