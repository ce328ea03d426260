import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { jobs, namespaces, pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { ExecError } from "../../../crds/client/exec/exec-outcome.ts";
import { startInformer } from "../../../crds/client/watch/informer.ts";
import type { Job, Pod } from "../../../crds/kubernetes.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { onAbort, orAborted } from "../../../crds/waits.ts";
import { isFinished } from "../../../operator/builds/build-progress.ts";
import { localExec } from "../../unit/snapshots/local-exec.ts";
import { staticBusybox } from "../../unit/snapshots/static-busybox.ts";
import { serveStore } from "../../unit/snapshots/store-server.ts";

export const BUILDS = "tenancy-builds";

const REMOVAL = { recursive: true, force: true, maxRetries: 100, retryDelay: 20 };
const GONE = new Error("the pod is gone");

/** How a build ends: what the build container leaves as its message. */
export interface PretendEnd {
  readonly message: string;
  readonly exitCode: number;
}

/**
 * What the Job controller, the garbage collector and a kubelet make of the Jobs of builds: a pod for each, whose init
 * container runs as it is, in a folder of this machine, and whose build container is what the test says it is.
 */
export interface PretendBuilders {
  /** Runs commands in the folders of the pods. */
  readonly exec: Exec;
  /** Where they are, by the pod's name. */
  readonly root: string;
  /** Names of all Jobs that there ever were, and of their pods. */
  readonly everJobs: ReadonlyMap<string, string[]>;
  /** The build contexts on the snapshots volume. */
  readonly contexts: BuildContexts;
  /** Puts a build context on the snapshots volume; its SHA-256. */
  store(workload: string, content: Buffer): string;
  /** Names of what is there of a workload. */
  stored(workload: string): string[];
  /** Jobs that have not ended. */
  unfinished(): Job[];
  /** How a build ends, by its pod and the files of its context; it goes on until the promise resolves. */
  ends(build: (pod: Pod, files: Record<string, string>) => Promise<PretendEnd>): void;
  stop(): Promise<void>;
}

/** The image that a build of this context is said to give. */
export function built(digest: string, { steps = 2, cached = 0 } = {}): PretendEnd {
  return { message: `state=Built\ndigest=${digest}\nsteps=${steps}\ncached=${cached}\n`, exitCode: 0 };
}

/** Runs commands in the folder below `root` that a pod has. */
export function createFolderExec(root: string): Exec {
  return async (options) => {
    const folder = join(root, options.pod);
    if (!readdirSync(root).includes(options.pod)) throw new ExecError("no such pod", { reason: "PodGone" });
    const places = new Map([
      ["/bin/busybox", staticBusybox],
      ["/context", folder],
      ["/snapshots", folder],
    ]);
    return localExec({ ...options, command: options.command.map((word) => places.get(word) ?? word) });
  };
}

export async function startPretendBuilders(client: ClusterClient): Promise<PretendBuilders> {
  const stopping = new AbortController();
  const root = mkdtempSync(join(tmpdir(), "tenancy-builds-"));
  const everJobs = new Map<string, string[]>();
  /** Ends what runs in a pod, by its name. */
  const ends = new Map<string, AbortController>();
  const work = new Set<Promise<void>>();
  let build = async (_pod: Pod, _files: Record<string, string>): Promise<PretendEnd> =>
    built(`sha256:${"a".repeat(64)}`);
  await client.create(namespaces, { metadata: { name: BUILDS } });
  const volume = join(root, SNAPSHOTS_NAME);
  mkdirSync(volume);
  const served = await serveStore(volume);

  const shared = { client, namespace: BUILDS, labelSelector: "tenancy.dev/build=true", signal: stopping.signal };
  const jobInformer = startInformer<Job, never>({
    ...{ ...shared, resource: jobs, indexes: {} },
    onChange({ type, object }) {
      if (type === "added") begin(object.metadata.name, runJob(object));
      else if (type === "modified" && object.metadata.deletionTimestamp !== undefined)
        begin(object.metadata.name, collect(object));
    },
  });
  await jobInformer.synced;

  function begin(what: string, run: Promise<void>): void {
    const tried: Promise<void> = run
      .catch((error: unknown) => {
        const isGone = isNotFound(error) || isConflict(error) || error === GONE;
        if (!isGone && !stopping.signal.aborted) console.error(what, error);
      })
      .finally(() => work.delete(tried));
    work.add(tried);
  }

  async function runJob(job: Job): Promise<void> {
    const { name, uid = "" } = job.metadata;
    const podName = `${name}-${randomBytes(3).toString("hex")}`;
    everJobs.set(name, [...(everJobs.get(name) ?? []), podName]);
    mkdirSync(join(root, podName));
    const end = new AbortController();
    ends.set(podName, end);
    const { metadata, spec } = job.spec.template;
    const pod = await client.create(pods, {
      metadata: {
        ...metadata,
        name: podName,
        namespace: BUILDS,
        ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid, controller: true }],
      },
      spec: { ...(spec as Pod["spec"]), nodeName: "pretended" },
    });
    await report(pod, { phase: "Pending", initContainerStatuses: [container("context", { running: {} })] });
    const [, flag = "", script = ""] = spec?.initContainers?.[0]?.command ?? [];
    const folder = join(root, podName);
    // A Job that was deleted meanwhile: what waits in it would wait for ever.
    end.signal.throwIfAborted();
    const child = spawn(staticBusybox, ["sh", flag, script.replaceAll("/context", folder)], { stdio: "ignore" });
    const ignoreEnd = onAbort(end.signal, () => child.kill("SIGKILL"));
    await once(child, "exit");
    ignoreEnd();
    end.signal.throwIfAborted();
    const init = container("context", { terminated: { exitCode: 0, reason: "Completed" } });
    await report(pod, {
      phase: "Running",
      initContainerStatuses: [init],
      containerStatuses: [container("build", { running: {} })],
    });
    const { message, exitCode } = await orAborted(build(pod, filesIn(join(folder, "files"))), end.signal);
    const ended = { terminated: { exitCode, message, finishedAt: now(), startedAt: now() } };
    const phase = exitCode === 0 ? "Succeeded" : "Failed";
    await report(pod, { phase, initContainerStatuses: [init], containerStatuses: [container("build", ended)] });
    await finish(job, exitCode === 0 ? undefined : "BackoffLimitExceeded");
  }

  async function finish(job: Job, failure: string | undefined): Promise<void> {
    const types = failure === undefined ? ["SuccessCriteriaMet", "Complete"] : ["FailureTarget", "Failed"];
    const reason = failure ?? "CompletionsReached";
    const times = { lastTransitionTime: now(), lastProbeTime: now() };
    const conditions = types.map((type) => ({ type, status: "True", reason, message: reason, ...times }));
    const counts = failure === undefined ? { succeeded: 1, completionTime: now() } : { failed: 1 };
    const { name, uid, creationTimestamp } = job.metadata;
    const status = { startTime: creationTimestamp, conditions, ...counts, uncountedTerminatedPods: {} };
    const body = { metadata: { uid }, status };
    await client.patch(jobs, { namespace: BUILDS, name }, { type: "merge", subresource: "status", body });
  }

  /** Deletes a Job's pods, and then the Job. */
  async function collect(job: Job): Promise<void> {
    const { name, uid } = job.metadata;
    for (const pod of everJobs.get(name) ?? []) await remove(pod);
    const body = { metadata: { uid, finalizers: null } };
    await client.patch(jobs, { namespace: BUILDS, name }, { type: "merge", body });
  }

  async function remove(pod: string): Promise<void> {
    ends.get(pod)?.abort(GONE);
    // What was run there may still be writing.
    await rm(join(root, pod), REMOVAL);
    try {
      await client.delete(pods, { namespace: BUILDS, name: pod }, { gracePeriodSeconds: 0 });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async function report({ metadata: { name, uid } }: Pod, status: object): Promise<void> {
    const body = { metadata: { uid }, status };
    await client.patch(pods, { namespace: BUILDS, name }, { type: "merge", subresource: "status", body });
  }

  return {
    root,
    exec: createFolderExec(root),
    contexts: served.contexts,
    everJobs,
    store(workload, content) {
      const sha256 = createHash("sha256").update(content).digest("hex");
      const folder = join(root, SNAPSHOTS_NAME, ".contexts", workload);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, sha256), content);
      return sha256;
    },
    stored(workload) {
      const folder = join(root, SNAPSHOTS_NAME, ".contexts", workload);
      return existsSync(folder) ? readdirSync(folder) : [];
    },
    unfinished: () => [...jobInformer.store.values()].filter((job) => !isFinished(job, Date.now())),
    ends(next) {
      build = next;
    },
    async stop() {
      stopping.abort();
      for (const end of ends.values()) end.abort(GONE);
      await Promise.all([jobInformer.done, ...work, served.close()]);
      await rm(root, REMOVAL);
    },
  };
}

function container(name: string, state: object) {
  return { name, image: "pretended", imageID: "", ready: false, restartCount: 0, state };
}

function filesIn(folder: string): Record<string, string> {
  return Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

function now(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}
