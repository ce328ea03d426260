import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { WorkloadNetwork } from "../../../crds/network.ts";
import type { SecretReference } from "../../../crds/schema/schema.ts";
import { type EgressCertificates, egressCertificates, leafFile } from "../../../operator/egress/egress-certificates.ts";
import { egressObjects } from "../../../operator/egress/egress-objects.ts";
import { egressRules, valueFile } from "../../../operator/egress/egress-rules.ts";
import { pickProxyUid } from "../../../operator/egress/egress-sidecar.ts";
import { proxyFolders, REDIRECT_PORT } from "../../../operator/egress/layout.ts";
import { redirectScript } from "../../../operator/egress/redirect-script.ts";
import { supervisorScript } from "../../../operator/egress/supervisor-script.ts";
import { findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { readProcessIdentity } from "../../../scripts/cluster/process/process-identity.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { listProcesses } from "../processes.ts";
import type { Answer, Call, HttpAnswer, HttpCall, SeenRequest, UpstreamSettings } from "./messages.ts";
import { address, createNamespaces, type Namespaces } from "./namespaces.ts";
import { reply, testProgram } from "./reply.ts";
import { upstreamCertificates } from "./upstream-certificates.ts";

/** A proxy as in a pod, with what it needs around it, in two network namespaces of its own. */
export interface TestEnvironment {
  readonly namespaces: Namespaces;
  /** Where the sidecar's files are. */
  readonly folder: string;
  /** All that the sidecar has written. */
  log(): string;
  /** Process ids of HAProxy, the newest last. */
  proxies(): number[];
  call<T = unknown>(call: Call): Promise<Answer<T>>;
  /** Calls with success, and reads what the upstream saw. */
  seen(call: Omit<HttpCall, "kind">): Promise<SeenRequest & { status: number; sent: string }>;
  /** Changes the world's names. */
  name(records: Record<string, string[]>): Promise<void>;
  /** Changes what the workload may reach, or the values; resolves when the proxy runs with it. */
  apply(change: { network?: WorkloadNetwork; values?: ReadonlyMap<SecretReference, string> }): Promise<void>;
  stop(): Promise<void>;
}

interface StageOptions {
  network: WorkloadNetwork;
  values?: ReadonlyMap<SecretReference, string>;
  records: Record<string, string[]>;
  openedRanges?: string[];
}

export async function startTestEnvironment(options: StageOptions): Promise<TestEnvironment> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-egress-"));
  chmodSync(folder, 0o755);
  const folders = { settings: join(folder, "settings"), run: join(folder, "run") };
  mkdirSync(folders.settings, { mode: 0o755 });
  for (const writable of [folders.run, join(folder, "trust")]) {
    mkdirSync(writable);
    chmodSync(writable, 0o777);
  }
  const resolvConf = join(folder, "resolv.conf");
  writeFileSync(
    resolvConf,
    `search test.invalid\nnameserver ${address.resolver}\noptions ndots:5 timeout:10 attempts:6\n`,
  );
  const busybox = join(folder, "busybox");
  copyFileSync(await findStaticBusybox(() => undefined), busybox);
  chmodSync(busybox, 0o755);
  const trustBundle = join(folder, "trust", "ca-bundle.pem");

  const namespaces = await createNamespaces(resolvConf);
  const children: ChildProcess[] = [];
  async function stop(): Promise<void> {
    for (const child of children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const exited = once(child, "exit", { signal: AbortSignal.timeout(60_000) });
      child.kill("SIGTERM");
      await exited;
    }
    await namespaces.remove();
    rmSync(folder, { recursive: true });
  }
  try {
    const world = await upstreamCertificates(Object.keys(options.records));
    const upstream = namespaces.start("world", testProgram(join(import.meta.dirname, "upstream-program.ts")), {
      stdio: "ipc",
    });
    children.push(upstream);
    upstream.send({
      certificates: world.certificates,
      records: options.records,
      resolvers: [address.resolver, address.otherResolver],
      host: "::",
    } satisfies UpstreamSettings);
    await reply(upstream, "the upstream servers");

    const volume = createSettingsVolume(folders.settings);
    let { network, values = new Map<SecretReference, string>() } = options;
    let certificates: EgressCertificates | undefined;
    // As in a pod, which mounts what the credentials named when it was made.
    const mounted = egressRules({ image: { ref: "none" }, network })?.credentials ?? [];
    const mountedLeaves = new Set(mounted.map(({ domain }) => leafFile(domain)));
    const mountedValues = new Set(mounted.flatMap(({ headers }) => headers.map(({ value }) => valueFile(value))));
    async function writeSettings(): Promise<number> {
      const rules = egressRules({ image: { ref: "none" }, network });
      if (rules === undefined) throw new Error("Cannot start a proxy for a workload that needs none");
      const domains = rules.credentials.map(({ domain }) => domain);
      if (domains.length > 0) {
        certificates = await egressCertificates({
          workload: "proxied",
          domains,
          now: new Date(),
          present: certificates,
        });
      }
      const { settings, leaves } = egressObjects({
        ...{ workload: "proxied", namespace: "proxied", rules, certificates, extraAuthorities: world.authority },
        owner: { apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyWorkload", name: "proxied", uid: "u" },
        openedRanges: options.openedRanges,
      });
      return volume.write({
        ...settings.data,
        // In a pod these are the folders themselves.
        "haproxy.cfg": (settings.data?.["haproxy.cfg"] ?? "")
          .replaceAll(proxyFolders.settings, folders.settings)
          .replaceAll(proxyFolders.run, folders.run),
        "leaves/.empty": "",
        ...Object.fromEntries(
          Object.entries(leaves?.data ?? {})
            .filter(([file]) => mountedLeaves.has(file))
            .map(([file, pem]) => [`leaves/${file}`, Buffer.from(pem, "base64").toString()]),
        ),
        ...Object.fromEntries(
          [...values]
            .map(([reference, value]) => [valueFile(reference), value] as const)
            .filter(([file]) => mountedValues.has(file)),
        ),
      });
    }
    await writeSettings();

    const proxyUid = pickProxyUid();
    await namespaces.run("pod", [busybox, "sh", "-c", redirectScript({ proxyUid })]);
    const tenantFile = join(folder, "tenant");
    const script = supervisorScript({ folders, trustBundle, tenantFile });
    const sidecar = namespaces.start("pod", [busybox, "sh", "-c", script], { uid: proxyUid });
    children.push(sidecar);
    let log = "";
    for (const stream of [sidecar.stdout, sidecar.stderr]) stream?.on("data", (chunk) => (log += chunk));
    const proxies = () => haproxyProcesses(sidecar.pid ?? 0);
    await untilListening(namespaces, () => log);

    process.env.NODE_EXTRA_CA_CERTS = trustBundle;
    const client = namespaces.start("pod", testProgram(join(import.meta.dirname, "client-program.ts")), {
      stdio: "ipc",
    });
    delete process.env.NODE_EXTRA_CA_CERTS;
    children.push(client);
    await reply(client, "the client");
    let calls = 0;
    async function call<T>(what: Call): Promise<Answer<T>> {
      calls += 1;
      const id = calls;
      const limit = AbortSignal.timeout(60_000);
      const answered = new Promise<Answer<T>>((resolve, reject) => {
        const take = (message: { id: number; answer: Answer<T> }) => {
          if (message.id !== id) return;
          client.off("message", take);
          resolve(message.answer);
        };
        client.on("message", take);
        limit.addEventListener("abort", () => reject(new Error(`Cannot wait any longer for ${JSON.stringify(what)}`)));
      });
      client.send({ id, call: what });
      return answered;
    }
    return {
      ...{ namespaces, folder, stop, proxies, call },
      log: () => log,
      async seen(what) {
        const answer = await call<HttpAnswer>({ kind: "http", ...what });
        if ("error" in answer) throw new Error(`Cannot call ${what.url}: ${answer.error}\n${log}`);
        const { status, body, sha256 } = answer.value;
        if (status !== 200) throw new Error(`Cannot call ${what.url}: ${status} ${body}\n${log}`);
        return { ...(JSON.parse(body) as SeenRequest), status, sent: sha256 };
      },
      async name(records) {
        upstream.send(records);
        await reply(upstream, "the change of names");
      },
      async apply(change) {
        if (change.network !== undefined) network = change.network;
        if (change.values !== undefined) values = change.values;
        // The supervisor may look while they are written, and start one with what was there before.
        const writtenAt = await writeSettings();
        await waitUntil(async () => isOneSince(writtenAt, await listeners(namespaces)), {
          ...{ what: "the proxy to take the change", limitMs: 60_000, explain: () => log },
        });
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function untilListening(namespaces: Namespaces, log: () => string): Promise<void> {
  await waitUntil(async () => (await listeners(namespaces)).length > 0, {
    what: "the proxy to listen",
    limitMs: 60_000,
    explain: log,
  });
}

function haproxyProcesses(supervisor: number): number[] {
  const own = listProcesses().filter(({ parent, name }) => parent === supervisor && name === "haproxy");
  return own.map(({ pid }) => pid);
}

/** The processes that take connections. */
async function listeners(namespaces: Namespaces): Promise<number[]> {
  const lines = (await namespaces.run("pod", ["ss", "-Hltnp"])).split("\n");
  const own = lines.filter((line) => line.includes(`127.0.0.1:${REDIRECT_PORT}`));
  return own.flatMap((line) => [...line.matchAll(/pid=([0-9]+)/g)].map(([, pid]) => Number(pid)));
}

/** Whether one process alone listens, and began after that. */
function isOneSince(ticks: number, pids: readonly number[]): boolean {
  const [first] = pids;
  if (first === undefined || pids.some((pid) => pid !== first)) return false;
  return (readProcessIdentity(first)?.startTime ?? 0) >= ticks;
}

interface SettingsVolume {
  /**
   * Returns when it was done, in clock ticks since the machine's start. Whoever looked before that sees a change once
   * more afterwards, since the old folder goes last.
   */
  write(files: Readonly<Record<string, string>>): number;
}

/** A folder that changes as the kubelet changes a projected volume: all at once, by renaming one link. */
function createSettingsVolume(folder: string): SettingsVolume {
  let version = 0;
  return {
    write(files) {
      version += 1;
      const data = `..2026_01_01_00_00_00.${version}`;
      for (const [path, content] of Object.entries(files)) {
        const file = join(folder, data, path);
        mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
        writeFileSync(file, content, { mode: 0o444 });
      }
      symlinkSync(data, join(folder, "..data_tmp"));
      renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
      const doneAt = Math.round(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 100);
      const tops = new Set(Object.keys(files).map((path) => path.split("/")[0] ?? path));
      for (const entry of readdirSync(folder)) {
        const isOld = entry.startsWith("..2") && entry !== data;
        if (isOld || (!entry.startsWith("..") && !tops.has(entry))) rmSync(join(folder, entry), { recursive: true });
      }
      const present = new Set(readdirSync(folder));
      for (const top of tops) if (!present.has(top)) symlinkSync(join("..data", top), join(folder, top));
      return doneAt;
    },
  };
}
