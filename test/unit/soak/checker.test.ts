import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Checker, createChecker } from "../../../scripts/soak/checker.ts";
import type { Change } from "../../../scripts/soak/history.ts";
import type { Invariant } from "../../../scripts/soak/objects.ts";
import { PROXY_IMAGE } from "../../../scripts/soak/objects.ts";

const test = suite("soak: createChecker");
const PAIR = { tenantId: "a-b", workloadRef: "c" };

/** A checker, and a cluster that is told to it change by change. */
function createCluster() {
  let revision = 0;
  const contents = new Map<string, string>();
  const broken: Invariant[] = [];
  const trace = { folder: "", note: () => undefined, last: () => [], close: () => undefined };
  const checker: Checker = createChecker({
    trace,
    contentOf: (uid) => contents.get(uid) ?? "",
    onViolation: ({ invariant }) => broken.push(invariant),
  });

  function pod(name: string, state: PodState = {}): void {
    const { tenant, claimUid, pool, ip = "10.64.0.1", isDeleting, type = "MODIFIED", image = "soak/app:1" } = state;
    const { usedAt } = state;
    revision += 1;
    const object = {
      metadata: {
        ...{ name, namespace: "tenancy", uid: `uid-${name}`, resourceVersion: String(revision) },
        labels: {
          "tenancy.dev/managed": "true",
          ...(tenant !== undefined && { "tenancy.dev/tenant": tenant }),
          ...(pool !== undefined && { "tenancy.dev/pool": pool }),
        },
        annotations: {
          ...(claimUid !== undefined && { "tenancy.dev/claim-uid": claimUid }),
          ...(usedAt !== undefined && { "tenancy.dev/last-activity": usedAt }),
        },
        ...(isDeleting && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      },
      spec: { containers: [{ name: "workload", image }] },
      status: { phase: "Running", podIP: ip },
    };
    checker.onChange({ kind: "pod", type, revision, object } satisfies Change);
  }

  function claim(uid: string, state: ClaimState = {}): void {
    const { phase = "Active", instanceId, host = "10.64.0.1", resume = false, isDeleting, type = "MODIFIED" } = state;
    const { destroyed } = state;
    const { reason, isAsked = true, workloadRef = PAIR.workloadRef, deletedAt = "2026-01-01T00:00:00Z" } = state;
    if (isDeleting && isAsked) void checker.whileReleasing(PAIR, async () => undefined);
    revision += 1;
    const object = {
      metadata: {
        ...{ name: `claim-${uid}`, namespace: "tenancy", uid, resourceVersion: String(revision) },
        ...(destroyed !== undefined && { annotations: { "tenancy.dev/destroyed": destroyed } }),
        ...(isDeleting && { deletionTimestamp: deletedAt }),
      },
      spec: { ...PAIR, workloadRef, resume },
      status: {
        phase,
        ...(reason !== undefined && { reason }),
        ...(instanceId !== undefined && { instanceId, endpoint: { host } }),
      },
    };
    checker.onChange({ kind: "claim", type, revision, object } satisfies Change);
  }

  /** A claim that has its pod. */
  function session(uid: string, name: string, { resume = false, content = "" } = {}): void {
    contents.set(`uid-${name}`, content);
    claim(uid, { phase: "Pending", resume, type: "ADDED" });
    pod(name, { tenant: "a-b", claimUid: uid });
    claim(uid, { instanceId: name, resume });
  }

  /** Files that the tenant writes in its pod. */
  function write(name: string, content: string): void {
    contents.set(`uid-${name}`, content);
    checker.writes(PAIR, `uid-${name}`, content);
  }

  /** The claim's pod is lost, and it gets another one. */
  function goOn(uid: string, from: string, next: NextPod): void {
    const { name, content, resume = false, destroyed } = next;
    checker.excuse(`uid-${from}`, "deleted");
    if (destroyed) claim(uid, { instanceId: from, resume, destroyed: from });
    pod(from, { tenant: "a-b", claimUid: uid, isDeleting: true, type: "DELETED" });
    claim(uid, { phase: "Pending", resume });
    contents.set(`uid-${name}`, content);
    pod(name, { tenant: "a-b", claimUid: uid });
    claim(uid, { instanceId: name, resume });
  }

  /** The session's release, as it should be: its pod goes after its claim was deleted. */
  function release(uid: string, name: string, { resume = false } = {}): void {
    claim(uid, { instanceId: name, resume, isDeleting: true });
    pod(name, { tenant: "a-b", claimUid: uid, isDeleting: true });
    pod(name, { tenant: "a-b", claimUid: uid, isDeleting: true, type: "DELETED" });
    claim(uid, { phase: "Released", resume, isDeleting: true, type: "DELETED" });
  }

  return { checker, broken, contents, pod, claim, session, release, write, goOn };
}

interface NextPod {
  name: string;
  content: string;
  resume?: boolean;
  /** Whether the pod before was destroyed on request. */
  destroyed?: boolean;
}

interface PodState {
  tenant?: string;
  claimUid?: string;
  usedAt?: string;
  pool?: string;
  ip?: string;
  image?: string;
  isDeleting?: boolean;
  type?: "ADDED" | "MODIFIED" | "DELETED";
}

interface ClaimState {
  phase?: string;
  reason?: string;
  instanceId?: string;
  host?: string;
  resume?: boolean;
  isDeleting?: boolean;
  destroyed?: string;
  /** Whether somebody has asked for its deletion. @default true */
  isAsked?: boolean;
  workloadRef?: string;
  deletedAt?: string;
  type?: "ADDED" | "MODIFIED" | "DELETED";
}

test("finds nothing in sessions that come, write, go and come back", () => {
  const { broken, contents, session, release, checker } = createCluster();
  session("1", "p1");
  contents.set("uid-p1", "token 1");
  release("1", "p1");
  session("2", "p2", { resume: true, content: "token 1" });
  contents.set("uid-p2", "token 2");
  release("2", "p2", { resume: true });
  session("3", "p3", { resume: true, content: "token 2" });
  assert.equal(broken, []);
  assert.ok(checker.checks() > 10);
});

test("finds a pod that changes its tenant, its claim, or goes back to a pool", () => {
  for (const next of [
    { tenant: "x", claimUid: "1" },
    { tenant: "a-b", claimUid: "2" },
    { tenant: "a-b", claimUid: "1", pool: "c" },
    { pool: "c" },
  ]) {
    const { broken, pod } = createCluster();
    pod("p1", { tenant: "a-b", claimUid: "1" });
    pod("p1", next);
    assert.ok(broken.length > 0 && broken.every((invariant) => invariant === "one tenant a pod"), JSON.stringify(next));
  }
});

test("finds files in the pod of a claim that asked for none", () => {
  const { broken, session } = createCluster();
  session("1", "p1", { content: "token of somebody" });
  assert.equal(broken, ["one tenant a pod"]);
});

test("finds a live pod that its Active claim takes for lost", () => {
  const { broken, session, claim } = createCluster();
  session("1", "p1");
  claim("1", { phase: "Pending", instanceId: "p1" });
  assert.equal(broken, ["live pod kept"]);
});

test("finds a live pod that is deleted under its Active claim", () => {
  const { broken, session, pod } = createCluster();
  session("1", "p1");
  pod("p1", { tenant: "a-b", claimUid: "1", isDeleting: true });
  assert.equal(broken, ["live pod kept"]);
});

test("finds a claim that is deleted though nobody asked for it", () => {
  const { broken, session, claim } = createCluster();
  session("1", "p1");
  claim("1", { instanceId: "p1", isDeleting: true, isAsked: false });
  assert.equal(broken, ["live pod kept"]);
});

test("finds a claim that is released as idle although its pod was used a moment before", () => {
  for (const [usedAt, found] of [
    ["2026-01-01T00:00:00Z", []],
    ["2026-01-01T00:00:20Z", ["idle release"]],
  ] as const) {
    const { broken, claim, pod } = createCluster();
    const idle = { instanceId: "p1", workloadRef: "idle" };
    claim("1", { ...idle, phase: "Pending", type: "ADDED" });
    pod("p1", { tenant: "a-b", claimUid: "1", usedAt });
    claim("1", idle);
    claim("1", { ...idle, isDeleting: true, isAsked: false, deletedAt: "2026-01-01T00:00:25Z" });
    assert.equal(broken, found);
  }
});

test("allows an edit of a pod's labels, and takes it for the tenant's pod as before", () => {
  const { broken, session, pod, release, checker } = createCluster();
  session("1", "p1");
  checker.edited("uid-p1");
  pod("p1", { tenant: "mallory", claimUid: "1" });
  pod("p1", { tenant: "a-b", claimUid: "1" });
  release("1", "p1");
  assert.equal(broken, []);
});

test("finds a claim that ends before its pod, which nobody can have saved", () => {
  const { broken, session, claim } = createCluster();
  session("1", "p1");
  claim("1", { phase: "Released", isDeleting: true, type: "DELETED" });
  assert.equal(broken, ["live pod kept"]);
});

test("allows a claim to lose a pod that was ended from outside, known before the watch shows it or after", () => {
  const { broken, session, claim, pod, checker } = createCluster();
  checker.excuse("uid-p1", "evicted");
  session("1", "p1");
  pod("p1", { tenant: "a-b", claimUid: "1", isDeleting: true });
  claim("1", { phase: "Pending", instanceId: "p1" });
  assert.equal(broken, []);
});

test("finds a tenant that comes back to nothing, or to older files", () => {
  for (const content of ["", "token 1"]) {
    const { broken, contents, session, release } = createCluster();
    session("1", "p1");
    contents.set("uid-p1", "token 1");
    release("1", "p1");
    session("2", "p2", { resume: true, content: "token 1" });
    contents.set("uid-p2", "token 2");
    release("2", "p2", { resume: true });
    session("3", "p3", { resume: true, content });
    assert.equal(broken, ["last saved files"], content);
  }
});

test("allows what a release may have saved whose pod was ended from outside meanwhile", () => {
  for (const content of ["token 1", "token 2"]) {
    const { broken, contents, session, release, checker } = createCluster();
    session("1", "p1");
    contents.set("uid-p1", "token 1");
    release("1", "p1");
    session("2", "p2", { resume: true, content: "token 1" });
    contents.set("uid-p2", "token 2");
    checker.excuse("uid-p2", "evicted");
    release("2", "p2", { resume: true });
    session("3", "p3", { resume: true, content });
    assert.equal(broken, [], content);
  }
});

test("finds a session that moves to another pod without the files that it had, also one that resumed none", () => {
  for (const resume of [false, true]) {
    for (const content of ["token 1", "token 2"]) {
      const { broken, contents, session, pod, claim, checker } = createCluster();
      session("1", "p1", { resume });
      contents.set("uid-p1", "token 1");
      checker.excuse("uid-p1", "deleted");
      pod("p1", { tenant: "a-b", claimUid: "1", isDeleting: true });
      contents.set("uid-p1", "token 2");
      claim("1", { phase: "Pending", reason: "Moving", instanceId: "p1", resume });
      claim("1", { phase: "Pending", reason: "Moved", resume });
      contents.set("uid-p2", content);
      pod("p2", { tenant: "a-b", claimUid: "1", ip: "10.0.0.2" });
      claim("1", { instanceId: "p2", host: "10.0.0.2", resume });
      assert.equal(broken, content === "token 2" ? [] : ["last saved files"], `${resume} ${content}`);
    }
  }
});

test("a session that loses its pod goes on with its last checkpoint or later files", () => {
  for (const [content, found] of [
    ["token 1", ["last checkpoint"]],
    ["token 2", []],
    ["token 3", []],
    ["", ["last checkpoint"]],
    ["token of somebody", ["last checkpoint"]],
  ] as const) {
    for (const resume of [false, true]) {
      const { broken, checker, session, write, goOn } = createCluster();
      session("1", "p1", { resume });
      write("p1", "token 1");
      write("p1", "token 2");
      checker.onCheckpoint(PAIR, "token 2", true);
      write("p1", "token 3");
      goOn("1", "p1", { name: "p2", content, resume });
      assert.equal(broken, found, `${content} ${resume}`);
    }
  }
});

test("a session has what it had after the loss of a pod also after the next loss", () => {
  const { broken, checker, session, write, goOn } = createCluster();
  session("1", "p1");
  write("p1", "token 1");
  checker.onCheckpoint(PAIR, "token 1", true);
  goOn("1", "p1", { name: "p2", content: "token 1" });
  write("p2", "token 2");
  goOn("1", "p2", { name: "p3", content: "token 1" });
  assert.equal(broken, []);
  assert.is(checker.files().goneOn, 2);
  goOn("1", "p3", { name: "p4", content: "" });
  assert.equal(broken, ["last checkpoint"]);
});

test("a checkpoint that is seen after the loss of its pod may come too late for the next one", () => {
  const { broken, checker, session, claim, pod, write, contents } = createCluster();
  session("1", "p1");
  write("p1", "token 1");
  checker.excuse("uid-p1", "deleted");
  claim("1", { phase: "Pending" });
  checker.onCheckpoint(PAIR, "token 1", true);
  contents.set("uid-p2", "");
  pod("p2", { tenant: "a-b", claimUid: "1" });
  claim("1", { instanceId: "p2" });
  assert.equal(broken, []);
});

test("finds files that come back after they were destroyed on request", () => {
  for (const resume of [false, true]) {
    for (const [content, found] of [
      ["", []],
      ["token 1", ["last checkpoint", resume ? "last saved files" : "one tenant a pod"]],
    ] as const) {
      const { broken, checker, session, write, goOn } = createCluster();
      session("1", "p1", { resume });
      write("p1", "token 1");
      checker.onCheckpoint(PAIR, "token 1", true);
      goOn("1", "p1", { name: "p2", content, resume, destroyed: true });
      assert.equal(broken, found, `${content} ${resume}`);
    }
  }
});

test("finds another session's checkpoint, and a checkpoint of files that its tenant never wrote", () => {
  const { broken, checker, session, release, write, goOn } = createCluster();
  session("1", "p1");
  write("p1", "token 1");
  release("1", "p1");
  session("2", "p2");
  goOn("2", "p2", { name: "p3", content: "token 1" });
  assert.equal(broken, ["last checkpoint"]);
  checker.onCheckpoint(PAIR, "token of somebody", true);
  assert.is(broken.length, 2);
});

test("finds an address that is not the pod's, and a pod that is not the claim's", () => {
  const other = createCluster();
  other.claim("1", { phase: "Pending", type: "ADDED" });
  other.pod("p1", { tenant: "a-b", claimUid: "1" });
  other.claim("1", { instanceId: "p1", host: "10.64.0.9" });
  assert.equal(other.broken, ["endpoint is the claim's own"]);

  const stranger = createCluster();
  stranger.claim("1", { phase: "Pending", type: "ADDED" });
  stranger.pod("p1", { tenant: "x", claimUid: "2" });
  stranger.claim("1", { instanceId: "p1" });
  assert.equal(stranger.broken, ["endpoint is the claim's own"]);
});

test("finds a claim call that is answered another's address, or a pod that was destroyed before", () => {
  const { broken, session, pod, checker } = createCluster();
  session("1", "p1");
  const answer = { instanceId: "p1", host: "10.64.0.1", resume: false };
  checker.answered(PAIR, { ...answer, calledAtMs: Date.now() });
  assert.equal(broken, []);
  checker.excuse("uid-p1", "destroyed");
  checker.destroyed("uid-p1");
  pod("p1", { tenant: "a-b", claimUid: "1", isDeleting: true });
  pod("p2", { tenant: "x", claimUid: "2" });
  checker.answered(PAIR, { ...answer, calledAtMs: Date.now() + 5000 });
  assert.equal(broken, ["endpoint is the claim's own", "endpoint is the claim's own"]);
});

test("finds a claim that is given a second pod while its first lives", () => {
  const { broken, session, pod, claim } = createCluster();
  session("1", "p1");
  pod("p2", { tenant: "a-b", claimUid: "1" });
  claim("1", { instanceId: "p2" });
  assert.equal(broken, ["one pod a claim"]);
});

test("finds a pod without the proxy under a claim that was made after the fence, and no other", () => {
  const fenced = createCluster();
  fenced.session("1", "p1");
  fenced.checker.fence("c", 3);
  fenced.session("2", "p2");
  assert.equal(fenced.broken, ["newest fence"]);

  const { broken, checker, claim, pod } = createCluster();
  checker.fence("c", 0);
  claim("1", { phase: "Pending", type: "ADDED" });
  pod("p1", { tenant: "a-b", claimUid: "1", image: PROXY_IMAGE });
  claim("1", { instanceId: "p1" });
  assert.equal(broken, []);
});

test("finds a claim that asks for its files and is answered a pod that began without them", () => {
  const { broken, contents, session, release, checker } = createCluster();
  session("1", "p1");
  contents.set("uid-p1", "token 1");
  release("1", "p1");
  session("2", "p2");
  checker.answered(PAIR, { instanceId: "p2", host: "10.64.0.1", resume: true, calledAtMs: Date.now() });
  assert.equal(broken, ["last saved files"]);
});

test.run();
