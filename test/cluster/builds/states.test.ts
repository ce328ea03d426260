import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, jobs } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { createDeferred } from "../../../crds/waits.ts";
import type { Workload } from "../../../crds/workload.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { rawTar } from "../../unit/archive/raw-tar.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { BUILDS, built, type PretendBuilders, type PretendEnd, startPretendBuilders } from "./pretend-builders.ts";

const test = suite("built images");
const FIRST = `sha256:${"1".repeat(64)}`;
const SECOND = `sha256:${"2".repeat(64)}`;
let tenancy: Tenancy;
let builders: PretendBuilders;
/** While true, the helper pod does not answer. */
let isVolumeAway = false;

test.before(async () => {
  tenancy = await startTenancy("test-builds-states");
  builders = await startPretendBuilders(tenancy.client);
  const { builds } = operatorConfig({ TENANCY_REGISTRY: "registry.example.com/built" });
  tenancy.startOperator({
    config: { builds },
    exec: builders.exec,
    contexts: {
      ...builders.contexts,
      async erase(workload, call) {
        if (isVolumeAway) throw new Error("the helper pod does not answer");
        await builders.contexts.erase(workload, call);
      },
    },
  });
});
test.after(async () => {
  await builders?.stop();
  await tenancy?.stop();
});

async function createConfigMap(name: string, data: Record<string, string>): Promise<void> {
  await tenancy.client.create(configMaps, { metadata: { name, namespace: NAMESPACE }, data });
}

function createBuilt(name: string): Promise<Workload> {
  const image = { dockerfile: "Dockerfile", context: { configMapRef: { name } } };
  return tenancy.createWorkload(name, { image });
}

const conditionOf = (workload: Workload, wanted: string) =>
  workload.status?.conditions?.find(({ type }) => type === wanted);

test("a workload is built from a ConfigMap, and its pods run the digest", async () => {
  const seen: Record<string, string>[] = [];
  builders.ends(async (_pod, files) => {
    seen.push(files);
    return built(FIRST, { steps: 3, cached: 1 });
  });
  await createConfigMap("plain", { Dockerfile: "FROM scratch\n", "main.c": "ü" });
  await createBuilt("plain");
  const { status } = await tenancy.untilWorkload("plain", ({ status }) => status?.phase === "Ready");
  assert.is(status?.image, `registry.example.com/built/plain@${FIRST}`);
  assert.equal(seen, [{ Dockerfile: "FROM scratch\n", "main.c": "ü" }]);
  const { state, digest, steps, cached, key = "" } = status?.build ?? {};
  assert.equal({ state, digest, steps, cached }, { state: "Built", digest: FIRST, steps: 3, cached: 1 });
  const claim = await tenancy.createClaim("ann", "plain");
  const { status: claimed } = await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  const [pod] = await tenancy.podsOf(claim);
  assert.is(pod?.metadata.name, claimed?.instanceId);
  assert.is(pod?.spec.containers[0]?.image, `registry.example.com/built/plain@${FIRST}`);
  const [job] = (await tenancy.client.list(jobs, { namespace: BUILDS })).items;
  assert.is(job?.metadata.annotations?.[annotation.buildKey], key);
  assert.match(job?.metadata.annotations?.[annotation.buildResult] ?? "", FIRST);
  await tenancy.until("Events of its beginning and end", async () => {
    const reasons = (await tenancy.eventsOf("plain")).map(({ reason }) => reason);
    return reasons.includes("BuildStarted") && reasons.includes("Built");
  });
});

test("a new context is built while the old image serves, and pools roll after", async () => {
  builders.ends(async () => built(FIRST));
  await createConfigMap("rolling", { Dockerfile: "FROM scratch\n" });
  await createBuilt("rolling");
  await tenancy.createPool("rolling", { workloadRef: "rolling", size: 2 });
  const imagesOf = () => tenancy.members("rolling", "ready").map(({ spec }) => spec.containers[0]?.image);
  const first = `registry.example.com/built/rolling@${FIRST}`;
  const second = `registry.example.com/built/rolling@${SECOND}`;
  await tenancy.until("a pool of the first image", () => sameTwo(imagesOf(), first));

  const going = createDeferred<PretendEnd>();
  builders.ends(() => going.promise);
  await changeConfigMap("rolling", { Dockerfile: "FROM scratch\nCOPY . .\n" });
  const during = await tenancy.untilWorkload("rolling", ({ status }) => status?.build?.state === "Building");
  assert.is(during.status?.phase, "Ready");
  assert.is(during.status?.image, first);
  assert.is(conditionOf(during, "Built")?.status, "False");
  assert.match(conditionOf(during, "Built")?.message ?? "", first);
  assert.ok(sameTwo(imagesOf(), first), String(imagesOf()));
  going.resolve(built(SECOND));
  await tenancy.until("a pool of the second image", () => sameTwo(imagesOf(), second));
  const after = await tenancy.untilWorkload("rolling", ({ status }) => status?.image === second);
  assert.is(conditionOf(after, "Built")?.status, "True");

  builders.ends(async () => ({
    message: "state=Failed\ncode=1\nstep=[2/2] RUN make\nerror=it broke\n\na line",
    exitCode: 1,
  }));
  await changeConfigMap("rolling", { Dockerfile: "FROM scratch\nRUN make\n" });
  const failed = await tenancy.untilWorkload("rolling", ({ status }) => status?.build?.state === "Failed");
  assert.is(failed.status?.phase, "Ready");
  assert.is(failed.status?.image, second);
  assert.is(conditionOf(failed, "Built")?.reason, "BuildFailed");
  assert.match(conditionOf(failed, "Built")?.message ?? "", /RUN make.*it broke\na line; until it is built, pods run/s);

  const jobsSoFar = builders.everJobs.size;
  await changeConfigMap("rolling", { Dockerfile: "FROM scratch\n" });
  await tenancy.untilWorkload("rolling", ({ status }) => status?.image === first);
  assert.is(builders.everJobs.size, jobsSoFar, "what was built before is not built again");
});

test("without a context it says what to bring, and builds when that is there", async () => {
  builders.ends(async () => built(FIRST));
  await createBuilt("missing");
  const named = await tenancy.untilWorkload("missing", ({ status }) => status?.phase === "Error");
  assert.is(named.status?.reason, "ContextMissing");
  assert.match(named.status?.message ?? "", 'no ConfigMap "missing"');
  await tenancy.createWorkload("uploaded", { image: { dockerfile: "Dockerfile" } });
  const uploaded = await tenancy.untilWorkload("uploaded", ({ status }) => status?.phase === "Error");
  assert.is(uploaded.status?.reason, "ContextMissing");
  assert.match(uploaded.status?.message ?? "", "npm run workload -- build uploaded --context DIR");
  await createConfigMap("missing", { Dockerfile: "FROM scratch\n" });
  await tenancy.untilWorkload("missing", ({ status }) => status?.phase === "Ready");
});

test("an archive that was uploaded is checked on its way, built, and deleted with its workload", async () => {
  const seen: Record<string, string>[] = [];
  builders.ends(async (_pod, files) => {
    seen.push(files);
    return built(FIRST);
  });
  const upload = async (content: Buffer) => {
    const sha256 = builders.store("uploaded", content);
    const body = { metadata: { annotations: { [annotation.buildContext]: sha256 } } };
    await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "uploaded" }, { type: "merge", body });
  };
  const dockerfile = { name: "Dockerfile", content: Buffer.from("FROM scratch\n") };
  await upload(gzipSync(rawTar([dockerfile])));
  const ready = await tenancy.untilWorkload("uploaded", ({ status }) => status?.phase === "Ready");
  assert.equal(seen, [{ Dockerfile: "FROM scratch\n" }]);

  await upload(rawTar([dockerfile, { name: "../out", content: Buffer.from("x") }]));
  const refused = await tenancy.untilWorkload("uploaded", ({ status }) => status?.build?.state === "Failed");
  assert.is(refused.status?.build?.reason, "ContextRefused");
  assert.match(refused.status?.build?.message ?? "", "../out");
  assert.is(refused.status?.phase, "Ready");
  assert.is(refused.status?.image, ready.status?.image);
  await tenancy.until("the end of the Job that waited", () => builders.unfinished().length === 0);
  assert.is(seen.length, 1);

  // The check takes it, since the file may be anywhere behind; tar does not.
  await upload(rawTar([dockerfile, { name: "link", type: "1", target: "nowhere" }]));
  const unpacked = await tenancy.untilWorkload(
    "uploaded",
    ({ status }) => status?.build?.message?.includes("nowhere") === true,
  );
  assert.is(unpacked.status?.build?.reason, "ContextRefused");
  await tenancy.until("the end of its Job", () => builders.unfinished().length === 0);
  assert.is(seen.length, 1);

  assert.is(builders.stored("uploaded").length, 3);
  // An upload whose sender died before it named it is deleted, too.
  const body = { metadata: { annotations: { [annotation.buildContext]: null } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "uploaded" }, { type: "merge", body });
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "uploaded" });
  await tenancy.until("its end", async () => !(await exists(tenancy.client, workloads, "uploaded")));
  assert.equal(builders.stored("uploaded"), []);
});

test("an upload that is gone is the reason, and building goes on when it is there again", async () => {
  builders.ends(async () => built(FIRST));
  const content = rawTar([{ name: "Dockerfile", content: Buffer.from("FROM scratch\n") }]);
  const sha256 = createHash("sha256").update(content).digest("hex");
  builders.store("lost", Buffer.from("another"));
  await tenancy.client.create(workloads, {
    metadata: { name: "lost", namespace: NAMESPACE, annotations: { [annotation.buildContext]: sha256 } },
    spec: { image: { dockerfile: "Dockerfile" } },
  });
  const { status } = await tenancy.untilWorkload("lost", (found) => found.status?.phase === "Error");
  assert.is(status?.reason, "ContextMissing");
  assert.match(status?.message ?? "", "upload it again");
  await tenancy.until("no pod that waits", () => builders.unfinished().length === 0);
  builders.store("lost", content);
  await tenancy.untilWorkload("lost", (found) => found.status?.phase === "Ready");
});

test("contexts that cannot be deleted hold their workload, which says so, until they can, or a person leaves them", async () => {
  builders.ends(async () => built(FIRST));
  for (const name of ["held", "left"]) {
    const sha256 = builders.store(name, rawTar([{ name: "Dockerfile", content: Buffer.from("FROM scratch\n") }]));
    await tenancy.client.create(workloads, {
      metadata: { name, namespace: NAMESPACE, annotations: { [annotation.buildContext]: sha256 } },
      spec: { image: { dockerfile: "Dockerfile" } },
    });
    await tenancy.untilWorkload(name, (found) => found.status?.phase === "Ready");
  }
  isVolumeAway = true;
  for (const name of ["held", "left"]) {
    await tenancy.client.delete(workloads, { namespace: NAMESPACE, name });
    const { status } = await tenancy.untilWorkload(name, (found) => found.status?.reason === "ContextsLeft");
    assert.is(status?.phase, "Terminating");
    assert.match(status?.message ?? "", /helper pod does not answer.*tenancy.dev\/build-context to "left"/);
  }
  const body = { metadata: { annotations: { [annotation.buildContext]: "left" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "left" }, { type: "merge", body });
  await tenancy.until("the end of one", async () => !(await exists(tenancy.client, workloads, "left")));
  assert.is(builders.stored("left").length, 1);
  isVolumeAway = false;
  await tenancy.until("the end of the other", async () => !(await exists(tenancy.client, workloads, "held")));
  assert.equal(builders.stored("held"), []);
});

test("another build is asked for by an annotation; an image that is named clears what was built", async () => {
  builders.ends(async () => built(SECOND));
  const ref = { namespace: NAMESPACE, name: "plain" };
  await tenancy.client.patch(workloads, ref, {
    type: "merge",
    body: { metadata: { annotations: { [annotation.rebuild]: "1" } } },
  });
  const { status } = await tenancy.untilWorkload("plain", (found) => found.status?.image?.endsWith(SECOND) === true);
  assert.is(status?.build?.digest, SECOND);
  const image = { ref: "simulated/hello:1", dockerfile: null, context: null };
  await tenancy.client.patch(workloads, ref, { type: "merge", body: { spec: { image } } });
  const named = await tenancy.untilWorkload("plain", (found) => found.status?.image === undefined);
  assert.is(named.status?.phase, "Ready");
  assert.is(named.status?.build, undefined);
  assert.is(conditionOf(named, "Built"), undefined);
});

test("a registry that refuses the image is asked again, and until then the workload says so", async () => {
  const push = "state=Failed\ncode=1\nstep=exporting to image\nerror=failed to push: connection refused\n\n";
  builders.ends(async () => ({ message: push, exitCode: 1 }));
  await createConfigMap("refused", { Dockerfile: "FROM scratch\n" });
  await createBuilt("refused");
  const refused = await tenancy.untilWorkload("refused", (found) => found.status?.phase === "Error");
  const { status } = refused;
  assert.is(status?.reason, "RegistryRefused");
  assert.is(conditionOf(refused, "Reconciling")?.status, "True");
  assert.is(conditionOf(refused, "Stalled"), undefined);
  assert.match(status?.message ?? "", /connection refused; .*TENANCY_REGISTRY_SECRET; it is tried again after \d{4}-/);
  builders.ends(async () => built(FIRST));
  const ready = await tenancy.untilWorkload("refused", (found) => found.status?.phase === "Ready");
  assert.is(ready.status?.build?.tries, undefined);
  assert.is([...builders.everJobs].find(([name]) => name.includes("refused"))?.[1].length, 2);
});

async function changeConfigMap(name: string, data: Record<string, string>): Promise<void> {
  await tenancy.client.patch(configMaps, { namespace: NAMESPACE, name }, { type: "merge", body: { data } });
}

function sameTwo(images: (string | undefined)[], image: string): boolean {
  return images.length === 2 && images.every((found) => found === image);
}

test.run();
