// npm start: a cluster (unless one is named), the resource kinds, the operator, the edge, and a first claim. Ctrl-C
// stops what it started.

import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, watch, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { createClusterClient } from "../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../crds/client/transport.ts";
import { whenAborted } from "../crds/waits.ts";
import { buildEnvironment, ensureBuilds, importBuilderImage } from "./cluster/builds/ensure-builds.ts";
import { downLocalCluster } from "./cluster/down-local-cluster.ts";
import { DEFAULT_CLUSTER } from "./cluster/folders.ts";
import { loadImage, missingImage, requireSource } from "./cluster/images/load-image.ts";
import { HELLO_IMAGE, TOOLS_IMAGE } from "./cluster/images/local-images.ts";
import { importNodeImage, NODE_IMAGE } from "./cluster/images/node-image.ts";
import { importProxyImage, PROXY_IMAGE } from "./cluster/images/proxy-image.ts";
import { readProcessIdentity } from "./cluster/process/process-identity.ts";
import { upLocalCluster } from "./cluster/up-local-cluster.ts";
import { bundleDashboard } from "./start/bundle-dashboard.ts";
import { bundleOperator, OPERATOR_FLAGS } from "./start/bundle-programs.ts";
import { firstClaim } from "./start/first-claim.ts";
import { ensureNamespace, installKinds } from "./start/install-kinds.ts";
import { makeLinkKeys } from "./start/link-keys.ts";
import { requireFreeAddresses } from "./start/listen-addresses.ts";
import { onInterrupt } from "./start/on-interrupt.ts";
import { type Program, startProgram } from "./start/program.ts";
import { createScreen, type Screen } from "./start/screen.ts";
import { makeSnapshotsProgram, readSnapshotsProgram, type SnapshotsProgram } from "./start/snapshots-program.ts";
import { makeSnapshotsVolume } from "./start/snapshots-volume.ts";

const usage = `usage: npm start [-- [--context NAME] [--image REF] [--load IMAGE] [--name NAME] [--json] [--log FILE]]
  --context NAME  use the cluster of this context of your kubeconfig instead of the local one
  --image REF     image of the example workload "hello", which answers HTTP on port 8080
  --load IMAGE    load an image into the local cluster, which pulls none, and use it for "hello": FILE.tar (docker save, or an OCI
                  layout), the FOLDER of an OCI layout, or docker://NAME
  --name NAME     name of the local cluster, to keep several apart (default: tenancy)
  --json          print everything as JSON, one object a line
  --log FILE      append the same JSON to a file, whatever is printed`;

const root = join(import.meta.dirname, "..");
const { values } = parseArguments();
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const loadCommand = `npm run cluster -- load FILE.tar${values.name === DEFAULT_CLUSTER ? "" : ` --name ${values.name}`}`;
/** The environment of the programs on the local cluster. The process's own environment takes precedence. */
const localDefaults = {
  // The only node has this machine's cores, and idle examples should not fill it.
  TENANCY_CPU_OVERCOMMIT: "20",
  TENANCY_MEMORY_OVERCOMMIT: "4",
  TENANCY_TOOLS_IMAGE: TOOLS_IMAGE,
  TENANCY_PROXY_IMAGE: PROXY_IMAGE,
  // Low enough for a shell's limit on open files.
  TENANCY_PROXY_CONNECTIONS: "1000",
  TENANCY_SNAPSHOT_STORAGE_CLASS: "",
  TENANCY_SNAPSHOT_IMAGE: NODE_IMAGE,
  TENANCY_IMAGE_PULL_HINT: `the local cluster pulls no images: "${loadCommand}" loads one and prints what to write into image.ref`,
};
/**
 * The same for the user's own cluster, whose pods cannot be reached from here, and which has no image of the operator.
 */
const contextDefaults = { TENANCY_SNAPSHOT_IMAGE: "node:20-slim", TENANCY_SNAPSHOT_ACCESS: "api-server" };
/** Keys with a role need the key for everything. On the user's own cluster they need manifests/keys too. */
const keysNamespace =
  process.env.TENANCY_API_KEY === undefined || values.context !== undefined
    ? undefined
    : (process.env.TENANCY_KEYS_NAMESPACE ?? "tenancy-keys");
// All features are on, so that a person can try them.
process.env.TENANCY_EDGE_ROLES ??= "api,gateway,proxy";
const screen = openScreen();
const progress = createProgress(screen.say);
const stopping = new AbortController();
const programs: Program[] = [];
let isTakingDown = false;
let wasWarned = false;
/** The parts that are installed after the first claim. */
let bringing: Promise<void> = Promise.resolve();
/** Settles when the local cluster has started, which happens at the same time as the rest. */
let comingUp: Promise<unknown> = Promise.resolve();
/**
 * The local cluster, if this process has to stop it. A cluster that fails while it starts stops itself.
 */
let ownCluster: "none" | "coming" | "up" = "none";

onInterrupt((signal) => {
  const doing = progress.running().join(", ");
  if (!stopping.signal.aborted && !isTakingDown) {
    if (doing) screen.fail(`\nto be stopped, after: ${doing}`);
    return stopping.abort(new Error(`stopped by ${signal}`));
  }
  const byHand = ownCluster === "none" ? undefined : `npm run cluster -- down --name ${values.name}`;
  if (!wasWarned) {
    wasWarned = true;
    screen.fail(`\nstill at it: ${doing}; the next ${signal} leaves the rest as it is`);
    if (byHand) screen.fail(`if it hangs: ${byHand}`);
    return;
  }
  for (const program of programs) program.kill();
  screen.fail(`\nended in the middle of: ${doing}`);
  if (byHand) screen.fail(`what is left of the local cluster goes with: ${byHand}`);
  process.exit(130);
});

try {
  await start();
  await Promise.race([
    whenAborted([stopping.signal]).promise,
    ...programs.map((program) =>
      program.exited.then((how) => Promise.reject(new Error(`${program.name} ended: ${how}`))),
    ),
  ]);
} catch (error) {
  if (!stopping.signal.aborted) {
    process.exitCode = 1;
    screen.fail(`\n${messageOf(error)}`);
    // What goes on beside what has failed starts nothing any more.
    stopping.abort(error);
  }
}
await stop();
screen.close();
// With it ends what is still being compiled.
process.exit();

async function start(): Promise<void> {
  const again = `npm start -- ${values.context === undefined ? `--name ${values.name}-2` : `--context ${values.context}`}`;
  await requireFreeAddresses(process.env, { again });
  if (values.load !== undefined) requireSource(values.load);
  const { serving, up } = values.context === undefined ? bringUpCluster() : clusterOfContext(values.context);
  const buildsHere = values.context === undefined && process.env.TENANCY_REGISTRY === undefined;
  const started = startPrograms(serving, { buildsHere, again });
  const takesPods = up.then(() => stopping.signal.throwIfAborted());
  const provided = takesPods.then(
    values.context === undefined ? provideImage : () => ({ image: values.image ?? HELLO_IMAGE, loaded: [] }),
  );
  const claimed = Promise.all([started, provided]).then(([{ edge }, { image }]) =>
    progress.step("first claim", () =>
      firstClaim({ edge, image, apiKey: process.env.TENANCY_API_KEY, programs, signal: stopping.signal }),
    ),
  );
  const proxied = takesPods.then(() => progress.step("proxy image", provideProxyImage));
  const kept = takesPods.then(() => progress.step("snapshots image", provideNodeImage));
  const [{ operator, programEnv }, { loaded }, claim, because] = await Promise.all([
    started,
    provided,
    claimed,
    proxied,
    kept,
  ]);
  // Errors in their configuration would have occurred by now.
  for (const program of programs) program.keep();
  if (because !== undefined) {
    progress.detail(
      `no egress proxy, so workloads with a network.allowlist or network.credentials are refused: ${because}`,
    );
    delete programEnv.TENANCY_PROXY_IMAGE;
    operator.restart();
  }
  screen.say(claim);
  progress.total();
  if (!buildsHere) return;
  bringing = bringBuilds(loaded).catch((error: unknown) => {
    if (stopping.signal.aborted) return;
    const why = messageOf(error).replaceAll(/\s+/g, " ");
    progress.detail(`no image.dockerfile is built here, such workloads are refused: ${why}`);
    delete programEnv.TENANCY_REGISTRY;
    operator.restart();
  });
}

/**
 * Starts operator and edge as soon as the API server has the kinds. A new node does not accept pods yet at that time.
 */
async function startPrograms(
  serving: Promise<Where>,
  { buildsHere, again }: { buildsHere: boolean; again: string },
): Promise<{ operator: Program; edge: Program; programEnv: NodeJS.ProcessEnv }> {
  const namespace = process.env.TENANCY_NAMESPACE ?? "tenancy";
  const { volumesFolder, ...where } = await serving;
  stopping.signal.throwIfAborted();
  const env = { ...process.env, ...where };
  const bundling = progress.step("snapshots bundle", () => readSnapshotsProgram(root));
  const [program, operatorFile] = await Promise.all([
    bundling,
    values.watch ? "" : progress.step("operator bundle", () => bundleOperator(root)),
    progress.step("dashboard", () => bundleDashboard(root)),
    progress.step("resource kinds", async () => installAll(env, { namespace, volumesFolder, program: await bundling })),
  ]);
  const operatorCommand = values.watch
    ? [process.execPath, "--watch", "--import", "tsx", "operator/main.ts"]
    : [process.execPath, ...OPERATOR_FLAGS, operatorFile];
  // Not --hot, which would start another edge in the same process at each change.
  const edgeCommand = values.watch ? ["bun", "--watch", "edge/main.ts"] : ["bun", "edge/main.ts"];
  const level = process.env.TENANCY_LOG_LEVEL ?? (values.watch ? "info" : "warn");
  const programEnv: NodeJS.ProcessEnv = {
    ...(values.context === undefined ? localDefaults : contextDefaults),
    // An image named by the user is the operator's.
    ...(process.env.TENANCY_SNAPSHOT_IMAGE === undefined && { TENANCY_SNAPSHOT_PROGRAM: program.name }),
    ...(buildsHere && buildEnvironment(values.name)),
    ...(keysNamespace !== undefined && { TENANCY_KEYS_NAMESPACE: keysNamespace }),
    // A person reads this terminal. GET /api/v1/audit has the last records.
    ...{ TENANCY_AUDIT: "off", ...env, TENANCY_LOG_LEVEL: level },
  };
  const shared = { cwd: root, env: programEnv };
  // The cluster may have taken minutes.
  await requireFreeAddresses(process.env, { again });
  stopping.signal.throwIfAborted();
  if (values.watch) watchDashboard();
  return progress.step("operator and edge", async () => {
    const start = (name: string, command: string[]) =>
      startProgram({ ...shared, name, command, print: screen.warn, onLine: (line) => screen.line(name, line) });
    const operator = start("operator", operatorCommand);
    const edge = start("edge", edgeCommand);
    programs.push(operator, edge);
    return { operator, edge, programEnv };
  });
}

/** Bundles the page again when one of its files changes. The edge imports the bundle, and so restarts by itself. */
function watchDashboard(): void {
  let made: Promise<unknown> = Promise.resolve();
  let isDue = false;
  const watcher = watch(join(root, "edge", "dashboard"), { recursive: true }, () => {
    // An editor saves a file with several changes.
    if (isDue) return;
    isDue = true;
    made = made.then(async () => {
      isDue = false;
      await bundleDashboard(root).catch((error: unknown) => screen.fail(messageOf(error)));
    });
  });
  stopping.signal.addEventListener("abort", () => watcher.close(), { once: true });
}

/** Installs the builder. It is not needed before a workload is built, and on a new machine it takes minutes. */
async function bringBuilds(loaded: readonly string[]): Promise<void> {
  const namespace = process.env.TENANCY_BUILD_NAMESPACE;
  await progress.step("registry", () => ensureBuilds(values.name, { namespace, loaded, log: progress.detail }));
  await progress.step("builder image", async () => {
    const because = await importBuilderImage(values.name, { log: progress.detail, signal: stopping.signal });
    if (because !== undefined) throw new Error(because);
  });
}

/** Loads the given image of the example workload, and checks that the cluster has the named image. */
async function provideImage(): Promise<{ image: string; loaded: string[] }> {
  const { load, name } = values;
  const loaded = load === undefined ? [] : await progress.step("image", () => loadImage(name, load));
  for (const ref of loaded) progress.detail(`image.ref of a workload: ${ref}`);
  const image = values.image ?? loaded[0] ?? HELLO_IMAGE;
  const problem = await missingImage(name, image);
  if (problem === undefined) return { image, loaded };
  throw new Error(`Cannot use --image ${image}: ${problem}; load it from here with --load, or ${loadCommand}`);
}

/** Installs what the helper pod needs. The first claim works without it. */
async function provideNodeImage(): Promise<void> {
  if (values.context !== undefined || process.env.TENANCY_SNAPSHOT_IMAGE !== undefined) return;
  await importNodeImage(values.name);
}

/**
 * The rest works without it, so a failed download of the packages is not an error.
 *
 * @returns why it is missing
 */
async function provideProxyImage(): Promise<string | undefined> {
  if (values.context !== undefined || process.env.TENANCY_PROXY_IMAGE !== undefined) return undefined;
  try {
    await importProxyImage(values.name, progress.detail);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function installAll(
  env: NodeJS.ProcessEnv,
  into: { namespace: string; volumesFolder: string | undefined; program: SnapshotsProgram },
): Promise<void> {
  const { namespace, volumesFolder, program } = into;
  const transport = createTransport({ config: await loadClusterConfig({ env }), role: "start" });
  const shared = { client: createClusterClient({ transport }), namespace, signal: stopping.signal };
  try {
    await installKinds(shared);
    if (keysNamespace !== undefined) await ensureNamespace({ ...shared, namespace: keysNamespace });
    await makeLinkKeys(shared);
    await makeSnapshotsProgram({ ...shared, program });
    if (volumesFolder === undefined) return;
    await makeSnapshotsVolume({ ...shared, folder: volumesFolder, size: env.TENANCY_SNAPSHOT_SIZE ?? "10Gi" });
  } finally {
    transport.close();
  }
}

/**
 * The address of the cluster as environment variables. The edge runs kubectl for logs and exec. Only the local cluster
 * has the folder for volumes.
 */
interface Where {
  readonly KUBECONFIG: string;
  readonly PATH?: string;
  readonly volumesFolder?: string;
}

/** A cluster whose API server responds before its node accepts pods. */
interface ComingCluster {
  readonly serving: Promise<Where>;
  readonly up: Promise<unknown>;
}

function clusterOfContext(context: string): ComingCluster {
  const serving = progress.step("cluster", async () => ({ KUBECONFIG: await contextKubeconfig(context) }));
  return { serving, up: serving };
}

function bringUpCluster(): ComingCluster {
  let isServing: (where: Where) => void = () => undefined;
  const answering = new Promise<Where>((resolve) => {
    isServing = resolve;
  });
  const up = progress.step("cluster", () => bringUp(isServing));
  comingUp = up.catch(() => undefined);
  // If the cluster fails, there is no API server to wait for.
  return { serving: Promise.race([answering, up.then(() => answering)]), up };
}

async function bringUp(isServing: (where: Where) => void): Promise<void> {
  ownCluster = "coming";
  const owner = readProcessIdentity(process.pid);
  if (owner === undefined) throw new Error("Cannot read /proc: the local cluster needs Linux; elsewhere use --context");
  const cluster = await upLocalCluster({
    ...{ name: values.name, owner, log: progress.detail },
    onServing: ({ kubeconfigPath, kubectlPath, volumesFolder }) =>
      isServing({
        KUBECONFIG: kubeconfigPath,
        PATH: `${dirname(kubectlPath)}:${process.env.PATH}`,
        volumesFolder,
      }),
  }).finally(() => {
    ownCluster = "none";
  });
  if (cluster.isOwned) ownCluster = "up";
  else
    progress.detail(
      `it was up before and stays up at the end; npm run cluster -- down --name ${values.name} takes it down`,
    );
  progress.detail(`Kubernetes ${cluster.version}, KUBECONFIG=${cluster.kubeconfigPath}`);
  progress.detail(
    cluster.policies.enforced
      ? "network policies are enforced"
      : `network policies are NOT enforced: they are created, and close nothing here: ${cluster.policies.because}`,
  );
}

async function stop(): Promise<void> {
  isTakingDown = true;
  await comingUp;
  if (programs.length === 0 && ownCluster === "none") return;
  screen.say("\nstopping");
  await Promise.all([bringing, ...programs.map(({ name, stop }) => progress.step(`${name} stop`, stop))]);
  if (ownCluster === "up") await progress.step("local cluster down", () => downLocalCluster({ name: values.name }));
}

function parseArguments() {
  try {
    const parsed = parseArgs({
      options: {
        context: { type: "string" },
        image: { type: "string" },
        load: { type: "string" },
        name: { type: "string", default: DEFAULT_CLUSTER },
        json: { type: "boolean", default: false },
        log: { type: "string" },
        watch: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    if (parsed.values.load !== undefined && parsed.values.context !== undefined) {
      throw new Error(
        "Cannot use --load with --context: it loads into the local cluster; yours pulls --image by itself",
      );
    }
    return parsed;
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${usage}`);
    process.exit(2);
  }
}

function openScreen(): Screen {
  try {
    return createScreen({ root, json: values.json, file: values.log });
  } catch (error) {
    console.error(`Cannot use --log ${values.log}: ${messageOf(error)}`);
    process.exit(2);
  }
}

/**
 * Writes a kubeconfig with one context, readable only by its owner, so that programs started with it cannot reach
 * another cluster.
 *
 * @throws Error if the context does not exist
 */
async function contextKubeconfig(context: string): Promise<string> {
  const view = ["config", "view", "--minify", "--flatten", "--context", context, "-o", "yaml"];
  try {
    const { stdout } = await promisify(execFile)("kubectl", view);
    const path = join(mkdtempSync(join(tmpdir(), "tenancy-")), "kubeconfig");
    writeFileSync(path, stdout.replace(/^current-context: .*$/m, `current-context: ${JSON.stringify(context)}`));
    chmodSync(path, 0o600);
    return path;
  } catch (cause) {
    const said = (cause as { stderr?: string }).stderr?.trim() || String(cause);
    throw new Error(`Cannot use context "${context}": ${said}. See: kubectl config get-contexts`, { cause });
  }
}

interface Progress {
  /** Runs a named step, and prints when it begins and how long it took. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** Prints a line about the current step. */
  detail(line: string): void;
  /** The names of the current steps. */
  running(): string[];
  /** The total time. */
  total(): void;
}

/** Tells a person what long work is doing, with elapsed times. */
function createProgress(print: (line: string) => void): Progress {
  const started = performance.now();
  const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`;
  const running = new Set<string>();
  return {
    async step(name, work) {
      const began = performance.now();
      print(`-> ${name}`);
      running.add(name);
      try {
        const result = await work();
        print(`ok ${name} (${seconds(began)})`);
        return result;
      } finally {
        running.delete(name);
      }
    },
    running: () => [...running],
    detail: (line) => print(`   ${line}`),
    total: () => print(`\nready in ${seconds(started)}; Ctrl-C stops it`),
  };
}
