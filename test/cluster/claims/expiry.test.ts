// @waits
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimSpec } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { CLAIM_LABEL_PREFIX, label } from "../../../crds/labels.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("expiry of claims");
const filesystem = { overlayDirs: ["/data"] };
const HOUR_S = 3600;
let tenancy: Tenancy;
let operator: RunningOperator;
let edge: RestEdge;
let snapshots: Snapshots;
let saved: string[];

test.before(async () => {
  tenancy = await startTenancy("test-expiry");
  ({ snapshots, saved } = await recordSaves(tenancy));
  operator = tenancy.startOperator({ snapshots });
  await tenancy.createWorkload("kept", { filesystem, idle: { timeoutSeconds: HOUR_S } });
  await tenancy.createWorkload("thrown", { filesystem, idle: { action: "destroy" } });
  await tenancy.createWorkload("pooled");
  await tenancy.createPool("pooled", { workloadRef: "pooled", size: 1 });
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});
test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

const nameOf = (tenant: string, workload: string): string => `claim-${tenant}-${workload}`;
const serverNow = (): number => tenancy.client.transport.now();
const inSeconds = (seconds: number): string => new Date(serverNow() + seconds * 1000).toISOString();
const expiresAtOf = (json: unknown): string => (json as { expiresAt: string }).expiresAt;

function claimBy(by: RestEdge, tenant: string, body: { workload: string; expiresInSeconds?: number; labels?: object }) {
  return by.call("POST /api/v1/tenants/{id}/claim", { path: `/api/v1/tenants/${tenant}/claim`, body });
}

async function claimed(tenant: string, body: Parameters<typeof claimBy>[2]): Promise<Claim> {
  const { status, text } = await claimBy(edge, tenant, body);
  assert.is(status, 201, text);
  return tenancy.untilClaim(nameOf(tenant, body.workload), { phase: "Active" });
}

function extendBy(by: RestEdge, tenant: string, body: { workload: string; seconds: number }) {
  return by.call("POST /api/v1/tenants/{id}/extend", { path: `/api/v1/tenants/${tenant}/extend`, body });
}

/** As with kubectl. */
function edit({ metadata }: Claim, spec: { expiresAt: string | null }): Promise<Claim> {
  const { name } = metadata;
  return tenancy.client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", body: { spec } });
}

/** As of a session that became Active long ago. */
async function age({ metadata }: Claim): Promise<void> {
  const { name } = metadata;
  const body = { status: { claimedAt: inSeconds(-HOUR_S) } };
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", body, subresource: "status" });
}

async function restartOperator(): Promise<void> {
  await operator.stop();
  operator = tenancy.startOperator({ snapshots });
}

async function reasonsOf(claim: Claim): Promise<string[]> {
  return (await tenancy.eventsOf(claim.metadata.uid)).map(({ reason, count }) => `${reason} ${count}`).sort();
}

test("a claim that is in use is released when it expires, by a successor too, and its files are saved", async () => {
  const claim = await claimed("ann", { workload: "kept", expiresInSeconds: 8 });
  const { expiresAt } = claim.spec;
  await tenancy.untilClaim(claim.metadata.name, ({ status } = claim) => status?.expiresAt === expiresAt);
  await restartOperator();
  const path = `/api/v1/instances/${claim.status?.instanceId}/activity`;
  let isReleased = false;
  // Asked at every change: its whole release can pass while the edge answers once.
  const releasing = tenancy.untilClaim(claim.metadata.name, (found) => found?.metadata.deletionTimestamp !== undefined);
  const end = (): void => {
    isReleased = true;
  };
  releasing.then(end, end);
  while (!isReleased) {
    await edge.call("POST /api/v1/instances/{id}/activity", { path });
    await pause(100);
  }
  const { deletionTimestamp = "" } = (await releasing).metadata;
  // The API server's time is known to a second, and a deletion's is in whole ones.
  assert.ok(Date.parse(deletionTimestamp) >= Date.parse(expiresAt ?? "") - 2000, `${deletionTimestamp} ${expiresAt}`);
  await tenancy.untilGone(claim.metadata.name);
  assert.equal(tenancy.phases.get(claim.metadata.name)?.slice(-3), ["Releasing", "Released", "(gone)"]);
  assert.ok(saved.includes(claim.status?.instanceId ?? ""));
  await tenancy.until("its Event", async () => (await reasonsOf(claim)).includes("Expired 1"));
});

test("a claim that expired while no operator led is released; idle.action destroy gives the files up", async () => {
  const claim = await claimed("bea", { workload: "thrown", expiresInSeconds: HOUR_S });
  await operator.stop();
  await edit(claim, { expiresAt: inSeconds(-HOUR_S) });
  operator = tenancy.startOperator({ snapshots });
  await tenancy.untilGone(claim.metadata.name);
  assert.not(saved.includes(claim.status?.instanceId ?? ""));
  await tenancy.until("its Events", async () => {
    const reasons = await reasonsOf(claim);
    return ["Discarded 1", "Expired 1"].every((reason) => reasons.includes(reason));
  });
});

test("extend moves the expiry, which the operator follows; kubectl can bring it forward", async () => {
  const claim = await claimed("cas", { workload: "kept", expiresInSeconds: 10 });
  const { status, json } = await extendBy(edge, "cas", { workload: "kept", seconds: HOUR_S });
  assert.is(status, 200);
  const expiresAt = expiresAtOf(json);
  const { name } = claim.metadata;
  await tenancy.untilClaim(name, (found) => found?.status?.expiresAt === expiresAt);
  const first = Date.parse(claim.spec.expiresAt ?? "");
  await tenancy.until("the first expiry has passed", () => serverNow() > first + 2000);
  const { metadata, status: now } = await tenancy.client.get(claims, { namespace: NAMESPACE, name });
  assert.equal([metadata.deletionTimestamp, now?.phase], [undefined, "Active"]);
  const answer = await claimBy(edge, "cas", { workload: "kept", expiresInSeconds: 1 });
  assert.equal([answer.status, expiresAtOf(answer.json)], [201, expiresAt]);
  assert.match((answer.json as { message?: string }).message ?? "", /keeps its later expiry/);
  await edit(claim, { expiresAt: inSeconds(1) });
  await tenancy.untilGone(name);
});

test("a claim announces once that it expires soon, under any leader, and takes it back when it is extended", async () => {
  const claim = await claimed("dot", { workload: "kept", expiresInSeconds: HOUR_S });
  const { name } = claim.metadata;
  const saysSoon = ({ status }: Claim) => status?.conditions?.some(({ type }) => type === "ExpiresSoon") === true;
  await operator.stop();
  await age(claim);
  const { spec } = await edit(claim, { expiresAt: inSeconds(55) });
  for (let leaders = 0; leaders < 2; leaders += 1) {
    operator = tenancy.startOperator({ snapshots });
    const said = await tenancy.untilClaim(name, (found = claim) => saysSoon(found));
    assert.is(said.status?.expiresAt, spec.expiresAt);
    await tenancy.until("its Event", async () => (await reasonsOf(claim)).includes("ExpiresSoon 1"));
    // It has looked at all claims once it has looked at one that was made since.
    await claimed(`led${leaders}`, { workload: "kept" });
    await operator.stop();
  }
  assert.equal(await reasonsOf(claim), ["ExpiresSoon 1"]);
  operator = tenancy.startOperator({ snapshots });
  assert.is((await extendBy(edge, "dot", { workload: "kept", seconds: HOUR_S })).status, 200);
  await tenancy.untilClaim(name, (found = claim) => !saysSoon(found) && found.status?.phase === "Active");
  await tenancy.release(name);
});

test("the clock of an edge that is an hour ahead changes nothing", async () => {
  const ahead = "data:text/javascript,const{now}=Date;Date.now=()=>now()+36e5";
  const KUBECONFIG = tenancy.cluster.kubeconfigPath;
  const other = await startRestEdge("node", { KUBECONFIG, NODE_OPTIONS: `--import=${ahead}` });
  try {
    const isIn = (seconds: number, time: string, from: number) => {
      const base = Date.parse(time) - seconds * 1000;
      assert.ok(base >= from - 2000 && base <= serverNow() + 2000, `${time} is not ${seconds} s from now`);
    };
    const from = serverNow();
    const { status, json, text } = await claimBy(other, "eve", { workload: "kept", expiresInSeconds: 600 });
    assert.is(status, 201, text);
    isIn(600, expiresAtOf(json), from);
    const extended = await extendBy(other, "eve", { workload: "kept", seconds: 1200 });
    isIn(1200, expiresAtOf(extended.json), from);
  } finally {
    await other.stop();
  }
  assert.equal(other.problems, []);
  await tenancy.release(nameOf("eve", "kept"));
});

test("extend of a claim that is being released, never expires, or is not there", async () => {
  const endless = await claimed("fay", { workload: "kept" });
  const call = (workload: string) => extendBy(edge, "fay", { workload, seconds: 60 });
  assert.is((await call("none")).status, 404);
  const refused = await call("kept");
  assert.is(refused.status, 409);
  assert.match(refused.text, /does not expire/);
  await operator.stop();
  await edit(endless, { expiresAt: inSeconds(HOUR_S) });
  await tenancy.deleteClaim(endless.metadata.name);
  const going = await call("kept");
  assert.is(going.status, 409);
  assert.match(going.text, /is being released/);
  operator = tenancy.startOperator({ snapshots });
  await tenancy.untilGone(endless.metadata.name);
});

const labelsOf = ({ metadata }: Pod) =>
  Object.fromEntries(Object.entries(metadata.labels ?? {}).filter(([key]) => key.startsWith(CLAIM_LABEL_PREFIX)));

test("the write that binds a pod puts the labels of the claim on it, and edits of them are repaired", async () => {
  const labels: ClaimSpec["labels"] = { team: "red", "job.id": "7" };
  const wanted = { [`${CLAIM_LABEL_PREFIX}team`]: "red", [`${CLAIM_LABEL_PREFIX}job.id`]: "7" };
  await tenancy.until("a warm pod", () => tenancy.members("pooled", "ready").length === 1);
  for (const workload of ["pooled", "kept"]) {
    const bare: string[] = [];
    const stop = tenancy.onPodChange(() => {
      for (const { metadata } of tenancy.pods.store.values())
        if (metadata.labels?.[label.tenant] === "gil" && metadata.labels[`${CLAIM_LABEL_PREFIX}team`] !== "red")
          bare.push(metadata.name);
    });
    const { status } = await claimed("gil", { workload, labels, expiresInSeconds: HOUR_S });
    const name = status?.instanceId ?? "";
    const ref = { namespace: NAMESPACE, name };
    const read = () => tenancy.client.get(pods, ref);
    assert.equal([labelsOf(await read()), status?.source], [wanted, workload === "kept" ? "cold" : "pool"]);
    stop();
    assert.equal(bare, []);
    const edited = { [`${CLAIM_LABEL_PREFIX}team`]: "blue", [`${CLAIM_LABEL_PREFIX}more`]: "x", mine: "y" };
    await tenancy.client.patch(pods, ref, { type: "merge", body: { metadata: { labels: edited } } });
    await tenancy.until("the labels as they were", async () => {
      const pod = await read();
      const { [`${CLAIM_LABEL_PREFIX}team`]: team, [`${CLAIM_LABEL_PREFIX}more`]: more } = labelsOf(pod);
      return team === "red" && more === undefined;
    });
    assert.equal([labelsOf(await read()), (await read()).metadata.labels?.mine], [wanted, "y"]);
    const other = await claimBy(edge, "gil", { workload, labels: { ...labels, team: "blue" } });
    assert.is(other.status, 409);
    assert.match(other.text, /different: \\"team\\"\)/);
    assert.is((await claimBy(edge, "gil", { workload, labels })).status, 201);
  }
});

test("an expiry and labels cost a claim from a pool no write", async () => {
  const own = { labels: { team: "red" }, expiresInSeconds: HOUR_S };
  const before = operator.requests.length;
  const writes = () => operator.requests.slice(before).filter(({ resource }) => resource.startsWith("tenancyclaims"));
  for (const [index, more] of [{}, own, {}].entries()) {
    await tenancy.until("a warm pod", () => tenancy.members("pooled", "ready").length === 1);
    const { status } = await claimed(`ida${index}`, { workload: "pooled", ...more });
    assert.is(status?.source, "pool");
  }
  // A request counts when its answer has been read, which may be after the watch has shown it.
  await tenancy.until("the write of the last claim", () => writes().length >= 3);
  assert.equal(
    writes().map(({ verb }) => verb),
    ["patch", "patch", "patch"],
  );
});

test("kubectl get -o wide shows when a claim expires, in at most 200 columns", async () => {
  const { spec } = await claimed("hal", { workload: "pooled", expiresInSeconds: HOUR_S });
  const kubectl = (await findBinaries({ need: ["kubectl"] })).programs.kubectl ?? "kubectl";
  const where = ["--kubeconfig", tenancy.cluster.kubeconfigPath, "-n", NAMESPACE];
  const { stdout } = await promisify(execFile)(kubectl, [...where, "get", "tc", "-o", "wide"]);
  assert.match(stdout, spec.expiresAt ?? "none");
  assert.ok(Math.max(...stdout.split("\n").map((line) => line.length)) <= 200, stdout);
});

test("the edge's answers are as documented", () => {
  assert.equal(edge.problems, []);
});

test.run();
