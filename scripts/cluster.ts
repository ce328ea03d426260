import { join } from "node:path";
import { type ClusterArguments, parseArguments, USAGE } from "./cluster/arguments.ts";
import { BINARIES_SOURCES, type Binaries, findBinaries } from "./cluster/binaries.ts";
import { ensureBuilds } from "./cluster/builds/ensure-builds.ts";
import { readClusterState } from "./cluster/cluster-state.ts";
import { startControlPlane } from "./cluster/control-plane.ts";
import { downLocalCluster } from "./cluster/down-local-cluster.ts";
import { clusterFolder } from "./cluster/folders.ts";
import { loadImage } from "./cluster/images/load-image.ts";
import type { Log } from "./cluster/log.ts";
import { CONTROL_PLANE_PROGRAMS, PROGRAMS } from "./cluster/programs.ts";
import { cacheSource } from "./cluster/sources/cache.ts";
import { statusLocalCluster } from "./cluster/status-local-cluster.ts";
import { upLocalCluster } from "./cluster/up-local-cluster.ts";

type UpArguments = Exclude<ClusterArguments, { command: "help" }>;

const log: Log = (message) => {
  process.stderr.write(`${(performance.now() / 1000).toFixed(1).padStart(6)} s  ${message}\n`);
};

// An ordinary exit, so that running builds end with this process.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

try {
  process.exitCode = await run(parseArguments(process.argv.slice(2)));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

async function run(parsed: ClusterArguments): Promise<number> {
  switch (parsed.command) {
    case "help":
      process.stdout.write(USAGE);
      return 0;
    case "up":
      return parsed.controlPlane ? upControlPlane(parsed) : up(parsed);
    case "down":
      await downLocalCluster({ name: parsed.name, log });
      log(`nothing of the cluster "${parsed.name}" is left`);
      return 0;
    case "status":
      return status(parsed.name);
    case "kubeconfig":
      if (readClusterState(clusterFolder(parsed.name)) === undefined) {
        throw new Error(
          `Cannot find the cluster "${parsed.name}": start it with npm run cluster -- up --name ${parsed.name}`,
        );
      }
      process.stdout.write(`${join(clusterFolder(parsed.name), "kubeconfig")}\n`);
      return 0;
    case "load":
      return load(parsed);
    default: {
      const never: never = parsed;
      throw new Error(`Cannot do ${JSON.stringify(never)}`);
    }
  }
}

async function up({ name, source }: UpArguments): Promise<number> {
  const cluster = await upLocalCluster({
    name,
    log,
    ...(source && { binaries: await binariesFrom(source, PROGRAMS) }),
  });
  log(`Kubernetes ${cluster.version} is ready at ${cluster.server}`);
  log(cluster.policies.enforced ? "network policies are enforced" : "network policies are not enforced");
  await tryBuilds(name);
  announce(cluster.kubeconfigPath);
  return 0;
}

/** The rest works without a registry, so a failed download is not an error. */
async function tryBuilds(name: string, loaded: readonly string[] = []): Promise<void> {
  try {
    await ensureBuilds(name, { namespace: process.env.TENANCY_BUILD_NAMESPACE, loaded, log });
  } catch (error) {
    log(`no registry, so image.dockerfile is not built here: ${error instanceof Error ? error.message : error}`);
  }
}

async function upControlPlane({ name, source, simulatedNodes }: UpArguments): Promise<number> {
  const existing = await statusLocalCluster({ name });
  if (existing?.kind === "control-plane" && existing.ready) {
    log(`the control plane "${name}" is up at ${existing.server}`);
    announce(existing.kubeconfigPath);
    return 0;
  }
  const binaries = source
    ? await binariesFrom(source, CONTROL_PLANE_PROGRAMS)
    : await findBinaries({ need: CONTROL_PLANE_PROGRAMS, log });
  const nodes = simulatedNodes > 0 ? { simulatedNodes: { nodes: simulatedNodes } } : {};
  const { version, server, kubeconfigPath } = await startControlPlane({
    ...{ name, binaries, lifetime: "detached", log },
    ...nodes,
  });
  log(`the API server of Kubernetes ${version} is ready at ${server}`);
  announce(kubeconfigPath);
  return 0;
}

function binariesFrom(name: string, need: typeof CONTROL_PLANE_PROGRAMS): Promise<Binaries> {
  const source = BINARIES_SOURCES.find((candidate) => candidate.takesLong && candidate.name === name);
  if (source === undefined) {
    const names = BINARIES_SOURCES.filter(({ takesLong }) => takesLong).map((candidate) => candidate.name);
    throw new Error(`Cannot use --source ${name}: use one of ${names.join(", ")}`);
  }
  return findBinaries({ need, log, sources: [cacheSource(name), source] });
}

async function status(name: string): Promise<number> {
  const found = await statusLocalCluster({ name });
  if (found === undefined) {
    process.stdout.write(`${name}: not there\n`);
    return 1;
  }
  const kind = found.kind === "complete" ? "cluster" : "control plane";
  process.stdout.write(`${name}: ${kind}, Kubernetes ${found.version}, ${found.ready ? "ready" : "not ready"}\n`);
  process.stdout.write(`  server      ${found.server}\n  kubeconfig  ${found.kubeconfigPath}\n`);
  if (found.policies !== undefined) {
    process.stdout.write(
      `  policies    ${found.policies.enforced ? "enforced" : `not enforced: ${found.policies.because}`}\n`,
    );
  }
  for (const { name: program, pid, running } of found.processes) {
    process.stdout.write(`  ${program.padEnd(24)} ${running ? `process ${pid}` : "not running"}\n`);
  }
  return found.ready ? 0 : 1;
}

async function load({ name, image = "" }: UpArguments): Promise<number> {
  const found = await statusLocalCluster({ name });
  if (found?.kind !== "complete" || !found.ready) {
    throw new Error(`Cannot load into the cluster "${name}": it is not up; npm run cluster -- up --name ${name}`);
  }
  const refs = await loadImage(name, image);
  await tryBuilds(name, refs);
  log(`loaded into the local cluster "${name}"; image.ref of a workload, or FROM of a build file:`);
  process.stdout.write(`${refs.join("\n")}\n`);
  return 0;
}

function announce(kubeconfigPath: string): void {
  process.stdout.write(`export KUBECONFIG=${kubeconfigPath}\n`);
}
