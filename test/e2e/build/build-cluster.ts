import { jobs, networkPolicies, pods } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createExec } from "../../../crds/client/exec/exec.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import type { Workload } from "../../../crds/workload.ts";
import { type BuildResult, parseBuildResult } from "../../../operator/builds/build-result.ts";
import { CONTEXT_CONTAINER, renderBuildJob, renderBuildsPolicy } from "../../../operator/builds/render-build.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";
import { fedScript, feedCommand } from "../../../operator/snapshots/streams/feed-command.ts";
import { END, frames } from "../../../operator/snapshots/streams/frames.ts";
import { buildEnvironment, ensureBuilds, importBuilderImage } from "../../../scripts/cluster/builds/ensure-builds.ts";
import { registryAddress } from "../../../scripts/cluster/builds/registry.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { kubectlFor, type RunKubectl } from "../../cluster/isolation/kubectl.ts";
import { type ContextFiles, contextArchive } from "./context-archive.ts";

const LIMIT_MS = 300_000;

/** A build that was begun. */
export interface BegunBuild {
  readonly job: string;
  readonly pod: string;
}

export interface BeginOptions {
  /** In the place of the cluster's own. */
  readonly registry?: { readonly prefix: string; readonly pushSecret?: string };
}

/** A local cluster that builds images, with a Job made by hand in the place of the operator's. */
export interface BuildCluster {
  readonly cluster: LocalCluster;
  readonly config: BuildConfig;
  /** Of the cluster's registry: `host:port`. */
  readonly registry: string;
  readonly client: ClusterClient;
  readonly kubectl: RunKubectl;
  /** In the namespace of builds. */
  inBuilds(...words: string[]): Promise<string>;
  /** Makes a Job, brings the context to it, and returns while it builds. */
  begin(name: string, files: ContextFiles, options?: BeginOptions): Promise<BegunBuild>;
  /** Waits until it has ended. */
  ended(build: BegunBuild): Promise<BuildResult>;
  podOf(build: BegunBuild): Promise<Pod>;
  remove(): Promise<void>;
}

/** @throws Error where the builder cannot be made */
export async function startBuildCluster(name: string): Promise<BuildCluster> {
  const cluster = await upLocalCluster({ name, log: console.log });
  await ensureBuilds(name, { log: console.log });
  const because = await importBuilderImage(name, { log: console.log });
  if (because !== undefined) throw new Error(`Cannot build images here: ${because}`);
  const config = operatorConfig({ ...buildEnvironment(name), TENANCY_BUILD_MEMORY: "1Gi" }).builds as BuildConfig;
  const kubectl = await kubectlFor(cluster.kubeconfigPath);
  const clusterConfig = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
  const transport = createTransport({ config: clusterConfig, role: "test" });
  const client = createClusterClient({ transport });
  const exec = createExec({ config: clusterConfig });
  await client.create(networkPolicies, renderBuildsPolicy(config));
  const inBuilds = (...words: string[]) => kubectl("-n", config.namespace, ...words);
  let builds = 0;

  async function begin(workload: string, files: ContextFiles, { registry }: BeginOptions = {}): Promise<BegunBuild> {
    builds += 1;
    const key = String(builds).padEnd(64, "0");
    const spec = { image: { dockerfile: "Dockerfile" } };
    const made = renderBuildJob(
      { metadata: { name: workload, uid: `uid-${workload}` }, spec } as Workload,
      { key, tries: 0 },
      registry === undefined ? config : { ...config, registry: registry.prefix, pushSecret: registry.pushSecret },
    );
    const job = made.metadata.name;
    await client.create(jobs, made);
    const found = await waitUntil(
      async () => {
        const listed = await client.list(pods, { namespace: config.namespace, labelSelector: `job-name=${job}` });
        const [pod] = listed.items;
        return pod?.status?.initContainerStatuses?.[0]?.state?.running === undefined ? undefined : pod.metadata.name;
      },
      { what: `the context's container of ${job}`, limitMs: LIMIT_MS },
    );
    await feedCommand({
      exec,
      target: {
        namespace: config.namespace,
        pod: found,
        container: CONTEXT_CONTAINER,
        command: ["sh", "-c", takeContext],
      },
      what: "bring the context",
      input: contextOf(files),
      signal: new AbortController().signal,
      timeoutMs: LIMIT_MS,
    }).catch(async (error: unknown) => {
      // The container ends as soon as it has the context, and may take the exec with it.
      const exitCode = await waitUntil(
        async () => (await podOf({ job, pod: found })).status?.initContainerStatuses?.[0]?.state?.terminated?.exitCode,
        { what: `the end of the context's container of ${job}`, limitMs: LIMIT_MS, explain: () => String(error) },
      );
      if (exitCode !== 0) throw error;
    });
    return { job, pod: found };
  }
  const podOf = ({ pod }: BegunBuild) => client.get(pods, { namespace: config.namespace, name: pod });

  return {
    ...{ cluster, config, client, kubectl, inBuilds, begin, podOf, registry: registryAddress(name) },
    async ended(build) {
      const message = await waitUntil(
        async () => (await podOf(build)).status?.containerStatuses?.[0]?.state?.terminated?.message,
        { what: `the end of ${build.job}`, limitMs: LIMIT_MS },
      );
      const result = parseBuildResult(message);
      if (result === undefined) throw new Error(`Cannot read how ${build.job} ended: ${message}`);
      return result;
    },
    async remove() {
      transport.close();
      await downLocalCluster({ name });
    },
  };
}

const takeContext = fedScript(`b=/bin/busybox
receive | "$b" tar x -o -C /context -f - && : > /context/.ready`);

async function* contextOf(files: ContextFiles): AsyncGenerator<Uint8Array> {
  yield* frames([contextArchive(files, "files/")]);
  yield END;
}
