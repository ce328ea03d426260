// @own-cluster
import { cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { findProcess, recordProcess } from "../../../scripts/cluster/cluster-state.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { inMountNamespaceOf } from "../../../scripts/cluster/node/mount-namespace.ts";
import { startProgram } from "../../../scripts/cluster/process/start-program.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { coldAndWarm, lifeSuite } from "./life-suite.ts";
import type { Lifecycle } from "./lifecycle.ts";

const test = lifeSuite("a cluster restored from a backup", { name: "restored", prepare: coldAndWarm });

/** Ends a program of the cluster, and returns what starts it again as it was. */
async function end(cluster: string, name: string): Promise<() => Promise<void>> {
  const folder = clusterFolder(cluster);
  const find = (wanted: string) => findProcess(folder, wanted)?.identity;
  const [identity, containerd] = [find(name), find("containerd")];
  if (identity === undefined || containerd === undefined) throw new Error(`${cluster} has no ${name}`);
  const run = readFileSync(`/proc/${identity.pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  const [command = "", ...words] = name === "kubelet" ? inMountNamespaceOf(containerd.pid, run) : run;
  await stopProcess(identity, { name, graceMs: 0 });
  return async () => {
    const logPath = join(folder, "log", `${name}.log`);
    recordProcess(folder, await startProgram({ name, command, arguments: words, logPath, lifetime: "detached" }));
  };
}

/** Whoever restores etcd starts these anew: they wait for what they take for the future. Containers go on meanwhile. */
const FOLLOWERS = ["kube-scheduler", "kube-controller-manager", "kubelet"];

/** As a person does who restores etcd. */
async function backUp({ cluster: { name } }: Lifecycle): Promise<() => Promise<void>> {
  const data = join(clusterFolder(name), "etcd");
  const start = await end(name, "etcd");
  cpSync(data, `${data}-backup`, { recursive: true });
  await start();
  return async () => {
    const starts = [];
    for (const follower of FOLLOWERS) starts.push(await end(name, follower));
    const startServer = await end(name, "kube-apiserver");
    const startEtcd = await end(name, "etcd");
    rmSync(data, { recursive: true });
    cpSync(`${data}-backup`, data, { recursive: true });
    await startEtcd();
    await startServer();
    for (const start of starts) await start();
  };
}

/** Patient: the API server is not there for moments. */
async function patiently<T>(what: string, work: () => Promise<T>): Promise<T> {
  let done: { value: T } | undefined;
  let problem = "";
  const tried = async () => {
    await work().then(
      (value) => (done = { value }),
      (error: unknown) => (problem = String(error)),
    );
    return done;
  };
  return (await waitUntil(tried, { what, limitMs: 120_000, explain: () => problem })).value;
}

test("pods that the node makes anew are empty: their claims get what was saved last, and no release replaces it", async ({
  life,
}) => {
  const write = (claim: Claim, text: string) => life.run(claim.status?.instanceId, `echo ${text} > /data/file`);
  await life.keep("gated", "cold", "first");
  const before = {
    cold: await life.claim("cold", "cold", true),
    gated: await life.claim("gated", "cold", true),
    warm: await life.claim("warm", "warm", true),
    released: await life.claim("released", "cold", true),
  };
  const sources = Object.values(before).map(({ status }) => status?.source);
  assert.equal(sources, ["cold", "cold+data", "pool", "cold"]);
  for (const claim of Object.values(before))
    assert.match(claim.status?.overlayId ?? "", /^[0-9a-f-]{36}\.[0-9a-f]{32}$/);
  const restore = await backUp(life);
  for (const [tenant, claim] of Object.entries(before))
    await patiently(`${tenant}'s files`, () => write(claim, `newest-${tenant}`));
  for (const claim of Object.values(before)) {
    await patiently("the deletion", () => life.deleteClaim(claim));
    await life.untilGone(claim);
  }
  await restore();
  await patiently("the deletion", () => life.deleteClaim(before.released));
  // The operator ends, since its history went back, and whatever runs it starts it again.
  await life.startOperator();

  await life.untilGone(before.released);
  const { released: _, ...restored } = before;
  for (const [tenant, claim] of Object.entries(restored)) {
    const again = await life.untilClaim(claim, "to be Active in another pod", (status) => {
      return status?.phase === "Active" && status.instanceUid !== claim.status?.instanceUid;
    });
    assert.is(await life.kept(again), `newest-${tenant}\n`);
    await life.release(again);
  }
  const last = await life.claim("released", "cold", true);
  assert.is(await life.kept(last), "newest-released\n");
});

test.run();
