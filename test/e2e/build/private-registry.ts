import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { unpackDebianPackages } from "../../../scripts/cluster/images/unpack-debian-packages.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { registriesFolder } from "../../../scripts/cluster/node/start-containerd.ts";
import { openAuthority } from "../../../scripts/cluster/pki/authority.ts";
import { logTail } from "../../../scripts/cluster/process/log-tail.ts";
import { startProgram } from "../../../scripts/cluster/process/start-program.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";

/** A registry over HTTPS that asks for a password and that no public authority vouches for. */
export interface PrivateRegistry {
  /** `host:port`. */
  readonly address: string;
  /** What signed its certificate, as PEM. */
  readonly authority: string;
  readonly user: string;
  readonly password: string;
  stop(): Promise<void>;
}

const USER = "builder";
const PASSWORD = "correct horse";
/** As `htpasswd -B` writes it, which a bare Debian does not have. */
const HTPASSWD = `${USER}:$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n`;

/** Starts it at an address of this machine, in the folder of a cluster, whose containerd trusts it from then on. */
export async function startPrivateRegistry(cluster: string, host: string): Promise<PrivateRegistry> {
  const packages = await unpackDebianPackages(["docker-registry"], { name: "registry-packages", log: silent });
  const folder = clusterFolder(cluster);
  const home = join(folder, "private-registry");
  const authority = await openAuthority(join(home, "pki"));
  const issued = await authority.issue({
    ...{ fileName: "server", commonName: host, alternativeNames: [host], purpose: "server" },
  });
  const address = `${host}:${await freePort(host)}`;
  const hosts = join(registriesFolder(folder), address);
  mkdirSync(hosts);
  const url = `https://${address}`;
  writeFileSync(
    join(hosts, "hosts.toml"),
    `server = "${url}"\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n  ca = "${authority.certificatePath}"\n`,
  );
  const passwords = join(home, "htpasswd");
  writeFileSync(passwords, HTPASSWD);
  const config = join(home, "config.json");
  const settings = {
    version: "0.1",
    log: { level: "warn", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(home, "images") } },
    auth: { htpasswd: { realm: "test", path: passwords } },
    http: { addr: address, tls: { certificate: issued.certificatePath, key: issued.keyPath } },
  };
  writeFileSync(config, JSON.stringify(settings));
  const program = await startProgram({
    name: "private registry",
    command: join(packages, "usr/bin/docker-registry"),
    arguments: ["serve", config],
    logPath: join(home, "log"),
    lifetime: "parent",
  });
  await waitUntil(
    () => {
      const ending = program.ending();
      if (ending !== undefined) throw new Error(`Cannot start the registry: ${ending}\n${logTail(program.logPath)}`);
      // It speaks TLS: by HTTP it says so.
      return fetch(`http://${address}/`, { signal: AbortSignal.timeout(1000) }).then(
        ({ status }) => status === 400,
        () => false,
      );
    },
    { what: "the registry to answer", limitMs: 60_000, explain: () => logTail(program.logPath) },
  );
  return {
    ...{ address, authority: authority.certificate, user: USER, password: PASSWORD },
    stop: () => stopProcess(program.identity, { name: program.name }),
  };
}

async function freePort(host: string): Promise<number> {
  const server = createServer().listen(0, host);
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}
