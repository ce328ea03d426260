// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { PodStatus } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { poolPlace, slimPod } from "../../../edge/cluster/slim-pod.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { eventually } from "../../eventually.ts";
import { fakeKubectl } from "./fake-kubectl.ts";
import { type Answer, testEdge } from "./test-edge.ts";

const test = suite("instances");
const claimed = {
  labels: { [label.workload]: "app", [label.tenant]: "a" },
  annotations: {
    [annotation.claim]: "claim-a-app",
    [annotation.claimUid]: "uid-claim-a-app",
    [annotation.claimedAt]: "2026-01-01T00:00:10.000Z",
  },
  podIP: "10.0.0.1",
};

test("records hold what the specification lists, and a warm pod has no tenant", async () => {
  const edge = testEdge();
  edge.cluster.addPod("inst-b", "Pending", { labels: { [label.workload]: "app", [label.pool]: "p" } });
  edge.cluster.addPod("inst-a", "Running", claimed);
  const record = {
    name: "inst-a",
    phase: "Running",
    ready: true,
    restarts: 0,
    tenantId: "a",
    workloadRef: "app",
    ip: "10.0.0.1",
    labels: { [label.managed]: "true", [label.workload]: "app", [label.tenant]: "a" },
    createdAt: "2026-01-01T00:00:00Z",
    lastActivity: "2026-01-01T00:00:10.000Z",
    claimedAt: "2026-01-01T00:00:10.000Z",
  };
  const warm = {
    name: "inst-b",
    phase: "Pending",
    ready: false,
    restarts: 0,
    workloadRef: "app",
    labels: { [label.managed]: "true", [label.workload]: "app", [label.pool]: "p" },
    createdAt: "2026-01-01T00:00:00Z",
  };
  assert.equal((await edge.call("GET /api/v1/instances")).json, [record, warm]);
  assert.equal((await edge.call("GET /api/v1/instances/inst-a")).json, record);
  assert.equal(edge.cluster.calls, []);
});

test("records say how a pod fares: whether it answers, how often it restarted, and what keeps it from its work", async () => {
  const edge = testEdge();
  const container = (state: object, restartCount = 0) => ({
    name: "main",
    image: "i",
    ready: false,
    restartCount,
    state,
  });
  const conditions = (type: string, status: "True" | "False", more = {}) => ({
    conditions: [{ type, status, ...more }],
  });
  const backOff = { waiting: { reason: "CrashLoopBackOff", message: "back-off 5m0s restarting failed container" } };
  const fares = async (status: PodStatus) => {
    edge.cluster.add(pods, { ...edge.cluster.addPod("p", "Running", claimed), status });
    const { ready, restarts, reason } = (await edge.call("GET /api/v1/instances/p")).json as ApiTypes["Instance"];
    return [ready, restarts, reason];
  };
  const ready = { phase: "Running" as const, podIP: "10.0.0.1", ...conditions("Ready", "True") };
  assert.equal(await fares({ ...ready, containerStatuses: [container({ running: {} })] }), [true, 0, undefined]);
  assert.equal(await fares({ ...ready, containerStatuses: [container({ running: {} }, 2)] }), [true, 2, undefined]);
  const looping = [container({ terminated: { exitCode: 0, reason: "Completed" } }), container(backOff, 4)];
  assert.equal(await fares({ phase: "Running", containerStatuses: looping }), [false, 4, "CrashLoopBackOff"]);
  const killed = [container({ terminated: { exitCode: 137, reason: "OOMKilled" } }, 1)];
  assert.equal(await fares({ phase: "Running", containerStatuses: killed }), [false, 1, "OOMKilled"]);
  const pulling = [container({ waiting: { reason: "ContainerCreating" } })];
  assert.equal(await fares({ phase: "Pending", containerStatuses: pulling }), [false, 0, undefined]);
  const waiting = conditions("PodScheduled", "False", { reason: "Unschedulable", message: "0/1 nodes" });
  assert.equal(await fares({ phase: "Pending", ...waiting }), [false, 0, "Unschedulable"]);
  assert.equal(await fares({ phase: "Failed", reason: "Evicted" }), [false, 0, "Evicted"]);
});

test("the later of claim and activity is the last activity, and nonsense is passed over", async () => {
  const edge = testEdge();
  const lastActivityOf = async (value: string) => {
    const annotations = { ...claimed.annotations, [annotation.lastActivity]: value };
    edge.cluster.addPod("inst-a", "Running", { ...claimed, annotations });
    return ((await edge.call("GET /api/v1/instances/inst-a")).json as { lastActivity: string }).lastActivity;
  };
  assert.is(await lastActivityOf("2026-01-01T00:01:00.000Z"), "2026-01-01T00:01:00.000Z");
  assert.is(await lastActivityOf("2025-01-01T00:01:00.000Z"), "2026-01-01T00:00:10.000Z");
  assert.is(await lastActivityOf("yesterday"), "2026-01-01T00:00:10.000Z");
});

test("an unknown instance and a pod that is not ours are the same 404, on every route", async () => {
  const edge = testEdge();
  edge.cluster.addPod("postgres-0", "Running", { labels: { [label.managed]: "no" }, hidden: true });
  for (const name of ["nobody", "postgres-0"]) {
    for (const [target, body] of [
      [`GET /api/v1/instances/${name}`, undefined],
      [`GET /api/v1/instances/${name}/logs`, undefined],
      [`POST /api/v1/instances/${name}/exec`, { command: ["ls"] }],
      [`POST /api/v1/instances/${name}/destroy`, undefined],
      [`POST /api/v1/instances/${name}/activity`, undefined],
    ] as const) {
      const answer = await edge.call(target, { body });
      assert.is(answer.status, 404, target);
      assert.is(answer.error, `instance "${name}" does not exist; GET /api/v1/instances lists the existing ones`);
    }
  }
  assert.ok(edge.cluster.has(pods, "postgres-0"));
});

test("a managed pod that the watch does not show yet is found all the same", async () => {
  const edge = testEdge();
  edge.cluster.addPod("inst-new", "Running", { hidden: true });
  assert.is((await edge.call("GET /api/v1/instances/inst-new")).status, 200);
});

test("names that no pod can have are refused before any call", async () => {
  const edge = testEdge();
  for (const name of ["A", "a_b", "-a", "--all", "a..b", "é", "a".repeat(254), "a b", "a/b"]) {
    const answer = await edge.call(`GET /api/v1/instances/${encodeURIComponent(name)}`);
    assert.is(answer.status, 400, name);
    assert.match(answer.error ?? "", "path: an instance's name is");
  }
  assert.equal(edge.cluster.calls, []);
});

test("destroy gives a pod that waits for its files a second, so that its containers end too", async () => {
  const edge = testEdge();
  edge.cluster.addPod("inst-a", "Running", { annotations: { [annotation.overlayDirs]: '["/data"]' } });
  assert.is((await edge.call("POST /api/v1/instances/inst-a/destroy")).status, 200);
  assert.match(JSON.stringify(edge.cluster.calls.at(-1)?.body), '"gracePeriodSeconds":1');
});

test("destroy marks the claim, then deletes that pod at once, and lets the claim's phase be", async () => {
  const edge = testEdge();
  const { cluster } = edge;
  const claim = cluster.addClaim({ tenantId: "a", workloadRef: "app", status: { phase: "Active" } });
  const annotations = { ...claimed.annotations, [annotation.claimUid]: claim.metadata.uid ?? "" };
  const pod = cluster.addPod("inst-a", "Running", { ...claimed, annotations });
  // Somebody writes the claim in between: the mark is tried again.
  cluster.onNext("patch", () => cluster.setStatus("claim-a-app", { phase: "Active", message: "written" }));
  const answer = await edge.call("POST /api/v1/instances/inst-a/destroy");
  assert.is(answer.status, 200, answer.text);
  assert.equal(answer.json, { status: "destroyed", instance: "inst-a" });
  assert.equal(cluster.verbs(), ["get", "patch", "get", "patch", "delete"]);
  assert.equal(cluster.calls.at(-1)?.body, { gracePeriodSeconds: 0, uid: pod.metadata.uid });
  assert.is(cluster.claim("claim-a-app").metadata.annotations?.[annotation.destroyed], "inst-a");
  assert.is(cluster.claim("claim-a-app").status?.phase, "Active");
  assert.is((await edge.call("POST /api/v1/instances/inst-a/destroy")).status, 404);
});

test("destroy leaves another claim of the same name alone, and needs none", async () => {
  const edge = testEdge();
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app" });
  const annotations = { ...claimed.annotations, [annotation.claimUid]: "of an earlier claim" };
  edge.cluster.addPod("inst-a", "Running", { ...claimed, annotations });
  edge.cluster.addPod("inst-warm", "Running");
  for (const name of ["inst-a", "inst-warm"]) {
    assert.is((await edge.call(`POST /api/v1/instances/${name}/destroy`)).status, 200);
  }
  assert.equal(edge.cluster.verbs(), ["get", "delete", "delete"]);
});

test("a pod that is gone, or whose name another has, when destroy comes to it is a 404", async () => {
  for (const annotations of [undefined, { ...claimed.annotations, [annotation.claimUid]: "u" }]) {
    for (const happens of ["goes", "is another"]) {
      const edge = testEdge();
      edge.cluster.addPod("inst-a", "Running", { ...(annotations && { ...claimed, annotations }) });
      edge.cluster.onNext("delete", () => {
        edge.cluster.removePod("inst-a");
        if (happens === "is another") edge.cluster.addPod("inst-a", "Running");
      });
      assert.is((await edge.call("POST /api/v1/instances/inst-a/destroy")).status, 404, happens);
      assert.is(edge.cluster.has(pods, "inst-a"), happens === "is another");
    }
  }
});

test("destroy of a warm pod leaves it to the tenant who is given it meanwhile", async () => {
  for (const seen of ["before the request", "by no watch yet", "during the deletion"]) {
    const edge = testEdge();
    const { cluster } = edge;
    cluster.addPod("inst-a", "Running");
    const claim = cluster.addClaim({ tenantId: "a", workloadRef: "app" });
    const annotations = { ...claimed.annotations, [annotation.claimUid]: claim.metadata.uid ?? "" };
    const uid = cluster.read(pods, "inst-a").metadata.uid;
    const bind = (): void => {
      const pod = cluster.addPod("inst-a", "Running", { ...claimed, annotations, hidden: true });
      Object.assign(pod.metadata, { uid });
      if (seen === "before the request") cluster.cache.pods.put(pod);
    };
    if (seen === "during the deletion") cluster.onNext("delete", bind);
    else bind();
    const answer = await edge.call("POST /api/v1/instances/inst-a/destroy?tenant=");
    assert.is(answer.status, 409, `${seen}: ${answer.text}`);
    assert.is(answer.error, 'instance "inst-a" is not destroyed: tenant "a" has claimed it in the meantime');
    assert.ok(cluster.has(pods, "inst-a"));
    assert.is(cluster.claim("claim-a-app").metadata.annotations?.[annotation.destroyed], undefined);

    assert.is((await edge.call("POST /api/v1/instances/inst-a/destroy?tenant=b")).status, 409);
    assert.is((await edge.call("POST /api/v1/instances/inst-a/destroy?tenant=a")).status, 200);
    assert.is(cluster.claim("claim-a-app").metadata.annotations?.[annotation.destroyed], "inst-a");
  }
});

test("destroy of a warm pod that only its status changed is done all the same", async () => {
  const edge = testEdge();
  const { uid } = edge.cluster.addPod("inst-a", "Running").metadata;
  edge.cluster.onNext("delete", () => {
    Object.assign(edge.cluster.addPod("inst-a", "Running", { hidden: true }).metadata, { uid });
  });
  assert.is((await edge.call("POST /api/v1/instances/inst-a/destroy?tenant=")).status, 200);
  assert.equal(edge.cluster.verbs(), ["delete", "get", "delete"]);
  for (const tenant of ["-a", "a&tenant=b"]) {
    assert.is((await edge.call(`POST /api/v1/instances/inst-a/destroy?tenant=${tenant}`)).status, 400);
  }
});

test("a reported activity is written, and an unclaimed instance has none", async () => {
  const edge = testEdge();
  const annotations = {
    ...claimed.annotations,
    [annotation.claimUid]: "u",
    [annotation.idleTimeoutSeconds]: "60",
    [annotation.claimedAt]: "2025-12-31T00:00:00Z",
  };
  edge.cluster.addPod("inst-a", "Running", { ...claimed, annotations });
  edge.cluster.addPod("inst-warm", "Running", { annotations: { [annotation.idleTimeoutSeconds]: "60" } });
  const answer = await edge.call("POST /api/v1/instances/inst-a/activity");
  assert.equal(answer.json, { status: "active", instance: "inst-a" });
  await edge.activity.close();
  assert.is(
    ((await edge.call("GET /api/v1/instances/inst-a")).json as { lastActivity: string }).lastActivity,
    "2026-01-01T00:00:00.000Z",
  );
  const warm = await edge.call("POST /api/v1/instances/inst-warm/activity");
  assert.is(warm.status, 409);
  assert.is(warm.error, 'instance "inst-warm" is not claimed, so it has no idle timeout to postpone');
});

test("exec: 409 before the claim is Active with the instance, and in a warm pod", async () => {
  const edge = testEdge();
  const { cluster } = edge;
  const exec = (name: string) => edge.call(`POST /api/v1/instances/${name}/exec`, { body: { command: ["ls"] } });
  // An exec that is let through ends at the kubectl that is not there.
  const LET_THROUGH = 503;
  const { metadata } = cluster.addInstance("inst-a");
  const claim = metadata.annotations?.[annotation.claim] ?? "";
  assert.is((await exec("inst-a")).status, LET_THROUGH);
  const asked = cluster.calls.splice(0).filter(({ verb }) => verb !== "patch");
  assert.equal(asked, [], "an Active claim is asked nothing, only its use is noted");

  for (const phase of ["Releasing", "ReleaseFailed"] as const) {
    cluster.setStatus(claim, { phase, instanceId: "inst-a" });
    assert.is((await exec("inst-a")).status, LET_THROUGH, phase);
  }
  for (const status of [
    { phase: "Pending" } as const,
    { phase: "Pending", instanceId: "inst-a" } as const,
    { phase: "Active", instanceId: "inst-b" } as const,
    { phase: "Error", reason: "StartTimeout" } as const,
  ]) {
    cluster.setStatus(claim, status);
    const refused = await exec("inst-a");
    assert.is(refused.status, 409, JSON.stringify(status));
    assert.match(refused.error ?? "", `does not belong to its tenant: its claim "${claim}"`);
  }
  cluster.removeClaim(claim);
  assert.is((await exec("inst-a")).status, 409);

  cluster.addPod("inst-warm", "Running", { labels: { [label.workload]: "app", [label.pool]: "p" } });
  const warm = await exec("inst-warm");
  assert.is(warm.status, 409);
  assert.is(warm.error, 'instance "inst-warm" is an unclaimed warm pod: claim its workload first');
});

test("exec: a command has 60 s where the call says nothing of it", async () => {
  const kubectl = fakeKubectl();
  const edge = testEdge({ kubectl: kubectl.command });
  edge.cluster.addInstance("inst-a");
  let answer: Answer | undefined;
  const body = { command: ["sleep", "60"] };
  void edge.call("POST /api/v1/instances/inst-a/exec", { body }).then((ended) => {
    answer = ended;
  });
  await eventually(() => kubectl.pids().length > 0);
  while (answer === undefined) {
    if (edge.clock.pending() > 0) await edge.clock.runNext();
    await new Promise((resolve) => setImmediate(resolve));
  }
  kubectl.remove();
  assert.is(answer.status, 504);
  assert.match(answer.error ?? "", "has not finished after 60 s");
});

test("exec: watches that are behind do not refuse an instance of an Active claim", async () => {
  for (const behind of ["both", "claim"]) {
    const edge = testEdge();
    const { cluster } = edge;
    if (behind === "both") {
      cluster.addPod("inst-a", "Running", { labels: { [label.pool]: "p" } });
      cluster.lag = true;
      cluster.addInstance("inst-a");
    } else {
      cluster.addInstance("inst-a");
      cluster.setStatus("claim-inst-a-app", { phase: "Pending" });
      cluster.lag = true;
      cluster.setStatus("claim-inst-a-app", { phase: "Active", instanceId: "inst-a" });
    }
    const answer = await edge.call("POST /api/v1/instances/inst-a/exec", { body: { command: ["ls"] } });
    assert.is(answer.status, 503, `${behind}: ${answer.text}`);
  }
});

test("without its spec, a pool's pod is ready unless its program has started again since its proof", () => {
  const place = (restartCount: number, annotations: Record<string, string> = {}): string | undefined => {
    const startedAt = `2026-01-01T00:0${restartCount}:00Z`;
    const container = { name: "workload", image: "i", ready: true, restartCount, state: { running: { startedAt } } };
    const status = {
      phase: "Running" as const,
      podIP: "10.0.0.1",
      conditions: [{ type: "Ready", status: "True" }],
      containerStatuses: [container],
    };
    return poolPlace(slimPod({ metadata: { name: "warm", labels: { [label.pool]: "p" }, annotations }, status }))
      ?.status;
  };
  const proof = { [annotation.provenRun]: "0@2026-01-01T00:00:00Z" };
  assert.equal([place(0), place(0, proof), place(1, proof)], ["ready", "ready", "warming"]);
});

test("ten thousand pods are a few megabytes in the store", () => {
  const spec = { image: { ref: "example.com/app:1" }, entrypoint: { env: { BIG: "x".repeat(20_000) } } };
  const identity = { name: "inst-a", ...claimed };
  const pod = renderPod({ metadata: { name: "app", uid: "u" }, spec }, identity, operatorConfig({}));
  assert.ok(JSON.stringify(pod).length > 20_000);
  assert.ok(JSON.stringify(slimPod(pod)).length < 700);
});

test.run();
