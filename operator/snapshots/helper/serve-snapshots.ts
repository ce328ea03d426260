import { readFileSync, watch } from "node:fs";
import { Server as SecureServer } from "node:https";
import { join } from "node:path";
import { createLog, type Log } from "../../../crds/log.ts";
import { SECRET_KEYS, STORE_PORT } from "../../../crds/snapshots/store-endpoint.ts";
import { createSnapshotServer } from "./server.ts";

interface Secrets {
  readonly tokens: readonly string[];
  readonly namesTokens: readonly string[];
  readonly key: string;
  readonly cert: string;
}

/**
 * The helper pod's process. `TENANCY_SNAPSHOT_ROOT` is the mount point of the volume. `TENANCY_SNAPSHOT_SECRETS` is the
 * folder of the Secret, which is read again when the kubelet changes it. `TENANCY_SNAPSHOT_LISTEN` is `host:port`.
 * `TENANCY_POD_UID` is the uid of the pod.
 */
export function serveSnapshots(environment: NodeJS.ProcessEnv): void {
  const { TENANCY_SNAPSHOT_ROOT: root = "/snapshots", TENANCY_SNAPSHOT_LISTEN: listen } = environment;
  const { TENANCY_SNAPSHOT_SECRETS: folder = "/etc/tenancy-snapshots" } = environment;
  const log = createLog({ program: "snapshots", level: environment.TENANCY_LOG_LEVEL ?? "info" });
  let secrets = readSecrets(folder);
  const { key, cert } = secrets;
  const { TENANCY_POD_UID: podUid } = environment;
  const [tokens, namesTokens] = [() => secrets.tokens, () => secrets.namesTokens];
  const server = createSnapshotServer({ root, podUid, tokens, namesTokens, tls: { key, cert }, log });
  const watcher = watch(folder, () => {
    secrets = readAgain(folder, { secrets, server, log });
  });
  server.listen(addressOf(listen), () => log.info({ address: server.address(), root }, "snapshots server listens"));
  process.once("SIGTERM", () => {
    watcher.close();
    server.close(() => process.exit(0));
    server.closeIdleConnections();
  });
}

function readSecrets(folder: string): Secrets {
  const read = (name: string): string => readFileSync(join(folder, name), "utf8").trim();
  const readSome = (...names: readonly string[]): string[] =>
    names.flatMap((name) => readIfThere(() => read(name)) || []);
  const [token, key, cert] = [SECRET_KEYS.token, SECRET_KEYS.key, SECRET_KEYS.certificate].map(read);
  if (!token || !key || !cert) throw new Error(`Cannot serve snapshots: the Secret in ${folder} is not filled`);
  const { tokenBefore, namesToken, namesTokenBefore } = SECRET_KEYS;
  // A Secret that an earlier version filled has no token for names.
  return { tokens: [token, ...readSome(tokenBefore)], namesTokens: readSome(namesToken, namesTokenBefore), key, cert };
}

function readIfThere(read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** The kubelet changes the whole Secret in one step. Some of the events come before that, and one after it. */
function readAgain(folder: string, { secrets, server, log }: { secrets: Secrets; server: unknown; log: Log }): Secrets {
  try {
    const read = readSecrets(folder);
    const { key, cert } = read;
    if (cert === secrets.cert || !(server instanceof SecureServer)) return read;
    // Open connections stay open.
    server.setSecureContext({ key, cert });
    log.info({}, "snapshots server uses a new certificate");
    return read;
  } catch (error) {
    log.warn({ error }, "snapshots server cannot read its secrets and continues with the previous ones");
    return secrets;
  }
}

function addressOf(listen: string | undefined): { host?: string; port: number } {
  if (listen === undefined) return { port: STORE_PORT };
  const at = listen.lastIndexOf(":");
  return { host: listen.slice(0, at), port: Number(listen.slice(at + 1)) };
}
