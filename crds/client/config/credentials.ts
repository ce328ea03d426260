import { readFile } from "node:fs/promises";
import type { Log } from "../../log.ts";
import type { Clock } from "../clock.ts";
import type { ClusterConfig, Credential, CredentialSource } from "./cluster-config.ts";
import { createExecCredentials } from "./exec-credentials.ts";

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

/** How long a file's content is used before the file is read again. The kubelet rotates tokens minutes ahead. */
const checkEveryMs = 10_000;

/** The credential in the configuration, or in the files that it names. The files are read again when they change. */
function createFileCredentials(options: {
  config: ClusterConfig;
  clock: Clock;
  log?: Log | undefined;
}): CredentialSource {
  const { config, clock, log } = options;
  const changes = [config.caFile, config.clientCertificateFile, config.clientKeyFile, config.tokenFile].some(
    (path) => path !== undefined,
  );
  let credential: Credential | undefined;
  let checkedAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<Credential> | undefined;

  async function read(): Promise<Credential> {
    try {
      const fresh = await readCredential(config);
      if (credential === undefined || differs(credential, fresh)) credential = fresh;
    } catch (error) {
      // A file can be missing for a moment while it is replaced. Until then its previous content is used.
      if (credential === undefined) throw error;
      log?.warn({ error }, "cannot read the cluster credential again, the last one stays in use");
    }
    checkedAt = clock.now();
    return credential;
  }

  return {
    current() {
      if (credential !== undefined && (!changes || clock.now() - checkedAt < checkEveryMs)) return credential;
      reading ??= read().finally(() => {
        reading = undefined;
      });
      return reading;
    },
    invalidate() {
      checkedAt = Number.NEGATIVE_INFINITY;
    },
  };
}

async function readCredential(config: ClusterConfig): Promise<Credential> {
  const [ca, certificate, key, token] = await Promise.all([
    readText("certificate authority", config.caFile),
    readText("client certificate", config.clientCertificateFile),
    readText("client key", config.clientKeyFile),
    readText("token", config.tokenFile),
  ]);
  const bearer = (token ?? config.token)?.trim();
  if (bearer === "") throw new Error(`Cannot use the token of ${config.server}: ${config.tokenFile ?? "it"} is empty`);
  return {
    authorization: bearer === undefined ? undefined : `Bearer ${bearer}`,
    ca: ca ?? config.caData,
    certificate: certificate ?? config.clientCertificateData,
    key: key ?? config.clientKeyData,
  };
}

async function readText(what: string, path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new Error(`Cannot read the ${what} ${path}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

function differs(a: Credential, b: Credential): boolean {
  return a.authorization !== b.authorization || a.ca !== b.ca || a.certificate !== b.certificate || a.key !== b.key;
}
