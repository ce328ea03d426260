import { test } from "uvu";
import * as assert from "uvu/assert";
import type { ContainerState, Job, Pod } from "../../../crds/kubernetes.ts";
import { buildProgress, hadPod, isFinished } from "../../../operator/builds/build-progress.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";

const config = operatorConfig({ TENANCY_REGISTRY: "r.example/built" }).builds as BuildConfig;
const digest = `sha256:${"0a".repeat(32)}`;
const at = "2026-01-02T03:04:05Z";

function job(failure?: string): Job {
  const failed = { type: "Failed", status: "True" as const, reason: failure ?? "", lastTransitionTime: at };
  return {
    metadata: { name: "build-w-1", uid: "j" },
    spec: { template: {} },
    ...(failure !== undefined && { status: { conditions: [failed] } }),
  } as Job;
}

function pod(states: { context?: ContainerState; build?: ContainerState }, status: Partial<Pod["status"]> = {}): Pod {
  const shown = (name: string, state: ContainerState | undefined) =>
    state === undefined ? [] : [{ name, image: "b:1", ready: false, restartCount: 0, state }];
  return {
    metadata: { name: "p" },
    spec: { containers: [] },
    status: {
      initContainerStatuses: shown("context", states.context),
      containerStatuses: shown("build", states.build),
      ...status,
    },
  };
}

const ended = (exitCode: number, message?: string, reason?: string): ContainerState =>
  ({ terminated: { exitCode, message, reason, finishedAt: at } }) as ContainerState;
const running = { running: { startedAt: at } } as ContainerState;
const look = (seen: { job?: Job; pod?: Pod | undefined; isFromGit?: boolean }) =>
  buildProgress({ job: job(), pod: undefined, isFromGit: false, now: Date.now(), ...seen }, config);

function failureOf(seen: Parameters<typeof look>[0]): string {
  const progress = look(seen);
  if (progress.state !== "ended" || progress.record.state !== "Failed") return progress.state;
  return `${progress.record.reason}: ${progress.record.message}`;
}

test("buildProgress: what the builder says counts at once, with the commit that was fetched", () => {
  const message = `state=Built\ndigest=${digest}\nsteps=3\ncached=1\n`;
  const commit = "c".repeat(40);
  const seen = pod({ context: ended(0, `commit=${commit}\n`), build: ended(0, message) });
  assert.equal(look({ pod: seen, isFromGit: true }), {
    state: "ended",
    record: { state: "Built", digest, steps: 3, cached: 1, commit, finishedAt: "2026-01-02T03:04:05.000Z" },
  });
});

test("buildProgress: an image that a builder names which did not end well is not taken", () => {
  const message = `state=Built\ndigest=${digest}\n`;
  assert.is(look({ pod: pod({ build: ended(143, message) }) }).state, "building");
  assert.match(failureOf({ job: job("BackoffLimitExceeded"), pod: pod({ build: ended(143, message) }) }), /^BuildLost/);
});

test("buildProgress: the context is asked for while its container waits, but not where the pod fetches it", () => {
  const waiting = pod({ context: running });
  assert.is(look({ pod: waiting }).state, "needs-context");
  assert.is(look({ pod: waiting, isFromGit: true }).state, "building");
  assert.is(look({}).state, "waiting");
  assert.is(
    look({ pod: pod({ context: ended(0), build: { waiting: { reason: "PodInitializing" } } }) }).state,
    "building",
  );
  assert.is(look({ pod: pod({ context: ended(0), build: running }) }).state, "building");
});

test("buildProgress: of a node whose clock is ahead it ended now, not tomorrow", () => {
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
  const message = "state=Failed\ncode=1\nstep=exporting to image\nerror=failed to push\n\n";
  const build = { terminated: { exitCode: 1, message, finishedAt: tomorrow } } as ContainerState;
  const progress = look({ pod: pod({ context: ended(0), build }) });
  assert.ok(progress.state === "ended" && progress.record.finishedAt < new Date(Date.now() + 60_000).toISOString());
});

test("buildProgress: why a pod does not start, in words that stay the same from look to look", () => {
  const said = (reason: string) => {
    const progress = look({ pod: pod({ context: { waiting: { reason, message: "5 s" } } }) });
    return progress.state === "waiting" ? progress.message : undefined;
  };
  assert.match(said("ErrImagePull") ?? "", "b:1 cannot be pulled (TENANCY_BUILDER_IMAGE)");
  assert.is(said("ErrImagePull"), said("ImagePullBackOff"));
  assert.match(said("CreateContainerConfigError") ?? "", "kubectl -n tenancy-builds describe pod p");
  assert.is(said("PodInitializing"), undefined);
  const full = { type: "PodScheduled", status: "False" as const, message: "0/1 nodes" };
  const progress = look({ pod: pod({}, { conditions: [full] }) });
  assert.is(progress.state === "waiting" && progress.message, "no node has room for its pod: 0/1 nodes");
});

test("buildProgress: a pod that was killed is judged when its Job has ended", () => {
  const killed = pod({ context: ended(0), build: ended(143) });
  assert.is(failureOf({ pod: killed }), "building");
  assert.match(
    failureOf({ job: job("DeadlineExceeded"), pod: killed }),
    /^BuildTimeout: .*1800 s.*TENANCY_BUILD_TIMEOUT/,
  );
  assert.match(failureOf({ job: job("DeadlineExceeded") }), /^BuildTimeout/);
  assert.match(failureOf({ job: job("BackoffLimitExceeded"), pod: killed }), /^BuildLost: pod "p" .*exit code 143/);
  assert.match(failureOf({ job: job("BackoffLimitExceeded") }), /^BuildLost: its pod .*it is gone/);
});

test("isFinished: a Job whose pod cannot end, since its node is gone, has ended after a minute", () => {
  const failing = (seconds: number): Job => {
    const lastTransitionTime = new Date(Date.now() - seconds * 1000).toISOString();
    const target = { type: "FailureTarget", status: "True" as const, reason: "DeadlineExceeded", lastTransitionTime };
    return { ...job(), status: { conditions: [target] } } as Job;
  };
  assert.not.ok(isFinished(failing(10), Date.now()));
  assert.is(look({ job: failing(10), pod: pod({ context: ended(0), build: running }) }).state, "building");
  assert.ok(isFinished(failing(120), Date.now()));
  assert.match(failureOf({ job: failing(120), pod: pod({ context: ended(0), build: running }) }), /^BuildTimeout/);
  assert.ok(isFinished(job("BackoffLimitExceeded"), Date.now()));
});

test("hadPod: a pod that the Job counted is not one that was never made", () => {
  const jobWith = (status: object) => ({ ...job(), status }) as Job;
  for (const status of [{}, { active: 0 }, { uncountedTerminatedPods: {} }]) assert.not.ok(hadPod(jobWith(status)));
  assert.not.ok(hadPod(job()));
  const ending = { conditions: [{ type: "FailureTarget", status: "True" }] };
  const counted = [{ active: 1 }, { failed: 1 }, { terminating: 1 }, { uncountedTerminatedPods: { failed: ["u"] } }];
  for (const status of [...counted, ending]) assert.ok(hadPod(jobWith(status)), JSON.stringify(status));
});

test("buildProgress: what a build took too much of is named with its setting; what a node lacked is no such thing", () => {
  const late = job("BackoffLimitExceeded");
  const memory = pod({ build: ended(137, undefined, "OOMKilled") });
  assert.match(failureOf({ job: late, pod: memory }), /^BuildFailed: .*TENANCY_BUILD_MEMORY \(2Gi\)/);
  const evicted = (message: string) => failureOf({ job: late, pod: pod({}, { reason: "Evicted", message }) });
  assert.match(
    evicted('Usage of EmptyDir volume "work" exceeds the limit "10Gi". '),
    /^BuildFailed: .*TENANCY_BUILD_DISK/,
  );
  assert.match(
    evicted("Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. "),
    /^BuildFailed/,
  );
  assert.match(evicted("The node was low on resource: ephemeral-storage. Usage exceeds its request. "), /^BuildLost/);
});

test("buildProgress: a repository that cannot be fetched, and a folder that is none", () => {
  const late = job("BackoffLimitExceeded");
  const fetched = (code: number, message: string) =>
    failureOf({ job: late, pod: pod({ context: ended(code, message) }), isFromGit: true });
  assert.match(
    fetched(128, "fatal: couldn't find remote ref v9"),
    /^ContextMissing: .*remote ref v9.*"tenancy-builds"/,
  );
  assert.is(
    fetched(65, "a leads out of the repository"),
    "ContextRefused: spec.image.context.git.path: a leads out of the repository",
  );
});

test.run();
