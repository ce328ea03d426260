import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimSpec } from "../../../crds/claim.ts";
import { events, pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, claimLabels, finalizer, label } from "../../../crds/labels.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { createRecorder } from "../../unit/tracing/recorder.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { createMemorySnapshots, type MemoryVolume } from "./memory-snapshots.ts";
import { type PretendKubelet, startPretendKubelet } from "./pretend-kubelet.ts";

const test = suite("which archive a session goes on from");
let tenancy: Tenancy;
let kubelet: PretendKubelet;
let count = 0;
const { tracer, spans } = createRecorder();
const volume: MemoryVolume = { archives: new Map(), versions: new Map(), touched: [], checkpoints: new Map() };
/** Of each save, whether what was saved before is to be erased. */
const erasures: (boolean | undefined)[] = [];

test.before(async () => {
  tenancy = await startTenancy("test-snapshots-versions", { nodes: false });
  kubelet = await startPretendKubelet(tenancy.client);
  const environment = { TENANCY_SNAPSHOT_IMAGE: "simulated/snapshots:1", TENANCY_SNAPSHOT_TTL: "86400" };
  const { snapshots } = operatorConfig({ TENANCY_OPERATOR_LISTEN: "off", ...environment });
  const memory = createMemorySnapshots({ kubelet, volume, reach: async () => undefined });
  tenancy.startOperator({
    snapshots: {
      ...memory,
      save(key, pod, options) {
        erasures.push(options.isErased);
        return memory.save(key, pod, options);
      },
    },
    config: { snapshots },
    tracer,
  });
  const filesystem = { overlayDirs: ["/data"] };
  await tenancy.createWorkload("cold", { filesystem });
  await tenancy.createWorkload("warm", { filesystem });
  await tenancy.createPool("warm", { workloadRef: "warm", size: 2 });
  await tenancy.until("the pool to be full", () => tenancy.members("warm", "ready").length === 2);
  await tenancy.until("the helper pod to run", () => kubelet.isHelperRunning());
});
test.after(async () => {
  await kubelet?.stop();
  await tenancy?.stop();
});

async function claim(workloadRef: string, resume: Pick<ClaimSpec, "resume" | "resumeVersion"> = {}): Promise<Claim> {
  count += 1;
  const name = `claim-ann-${workloadRef}-${count}`;
  await tenancy.client.create(claims, {
    metadata: {
      name,
      namespace: NAMESPACE,
      labels: claimLabels({ tenantId: "ann", workloadRef }),
      finalizers: [finalizer.release],
    },
    spec: { tenantId: "ann", workloadRef, ...resume },
  });
  return await tenancy.untilClaim(name, (found) => ["Active", "Error"].includes(found?.status?.phase ?? ""));
}

async function podOf({ status }: Claim) {
  return await tenancy.client.get(pods, { namespace: NAMESPACE, name: status?.instanceId ?? "" });
}

async function files(of: Claim): Promise<string | undefined> {
  return kubelet.files.get((await podOf(of)).metadata.uid ?? "");
}

async function write(to: Claim, content: string): Promise<void> {
  kubelet.files.set((await podOf(to)).metadata.uid ?? "", content);
}

function saved(workloadRef: string) {
  const key = `ann/${workloadRef}`;
  const older = (volume.versions.get(key) ?? []).map(({ content }) => content);
  return { newest: volume.archives.get(key)?.content, older };
}

test("a release does not rely on an archive that was to be erased during its session", async () => {
  for (const isErased of [false, true]) {
    const { metadata } = await claim("warm", { resume: true });
    const { name, namespace } = metadata;
    const body = { metadata: { annotations: { [annotation.erasedAt]: "2026-11-21T01:00:00.000Z" } } };
    if (isErased) await tenancy.client.patch(claims, { namespace, name }, { type: "merge", body });
    await tenancy.release(name);
    assert.is(erasures.at(-1), isErased);
  }
  volume.archives.clear();
  volume.versions.clear();
});

for (const workloadRef of ["cold", "warm"]) {
  test(`${workloadRef}: a session that forgot to resume loses nothing, and its files can be gone back to`, async () => {
    const first = await claim(workloadRef, { resume: true });
    assert.is(first.status?.resumedFrom, "none");
    await write(first, "a year's work");
    await tenancy.release(first.metadata.name);
    const version = volume.archives.get(`ann/${workloadRef}`)?.metadata.sha256 ?? "";

    const forgetful = await claim(workloadRef);
    assert.is(forgetful.status?.resumedFrom, undefined);
    const { name } = forgetful.metadata;
    const said = await tenancy.untilClaim(name, (found) => found?.status?.message !== undefined);
    assert.match(said.status?.message ?? "", /^the tenant has files of .*: this session starts without them, and/);
    assert.match(said.status?.message ?? "", `version ${version.slice(0, 16)}`);
    assert.is(said.status?.phase, "Active");
    await tenancy.release(forgetful.metadata.name);
    assert.equal(saved(workloadRef), { newest: "", older: ["a year's work"] });
    await tenancy.until("an Event to name the version", async () => {
      const { items } = await tenancy.client.list(events, { namespace: NAMESPACE });
      return items.some((event) => event.reason === "VersionKept" && event.message?.includes(version.slice(0, 16)));
    });

    const back = await claim(workloadRef, { resumeVersion: version.slice(0, 16) });
    assert.match(back.status?.source ?? "", /\+data$/);
    assert.is(back.status?.resumedFrom, version);
    assert.is(back.status?.message, undefined);
    assert.is(await files(back), "a year's work");
    await write(back, "and more");
    await tenancy.release(back.metadata.name);
    assert.equal(
      saved(workloadRef),
      { newest: "and more", older: ["", "a year's work"] },
      "the newest was not its own",
    );

    const on = await claim(workloadRef, { resume: true });
    assert.is(await files(on), "and more");
    await write(on, "and yet more");
    await tenancy.release(on.metadata.name);
    assert.equal(saved(workloadRef), { newest: "and yet more", older: ["", "a year's work"] });
  });
}

test("a version that there is not fails the claim, which says so", async () => {
  const failed = await claim("cold", { resume: true, resumeVersion: "0123456789abcdef" });
  assert.equal([failed.status?.phase, failed.status?.reason], ["Error", "RestoreFailed"]);
  assert.match(failed.status?.message ?? "", "there is no version 0123456789abcdef");
  await tenancy.release(failed.metadata.name);
});

test("an archive that a claim ends without replacing counts as used until then", async () => {
  const given = await claim("warm", { resume: true });
  const before = saved("warm");
  const { name } = given.metadata;
  const annotations = { [annotation.discard]: "true" };
  await tenancy.client.patch(
    claims,
    { namespace: NAMESPACE, name },
    { type: "merge", body: { metadata: { annotations } } },
  );
  volume.touched.length = 0;
  await tenancy.release(given.metadata.name);
  await tenancy.until("its last use to be noted", () => volume.touched.includes("ann/warm"));
  assert.equal(saved("warm"), before);
});

test("a release saves its own tenant's files from a pod that was labelled as another tenant's", async () => {
  const held = await claim("cold", { resume: true });
  await write(held, "whose?");
  const { name } = (await podOf(held)).metadata;
  const body = { metadata: { labels: { [label.tenant]: "bob" } } };
  await tenancy.client.patch(pods, { namespace: NAMESPACE, name }, { type: "merge", body });
  await tenancy.release(held.metadata.name);
  assert.is(saved("cold").newest, "whose?");
  assert.equal(
    [...volume.archives.keys()].filter((key) => key.startsWith("bob/")),
    [],
  );
});

test("restores and saves are steps in the traces of starts and releases", async () => {
  const nameOf = (id: string | undefined) => spans.find(({ context }) => context.spanId === id)?.name;
  const parentsOf = (step: string) =>
    new Set(spans.filter(({ name }) => name === step).map(({ parentSpanId }) => nameOf(parentSpanId)));
  await tenancy.until("all releases to be recorded", () => [...parentsOf("save files")].join() === "release claim");
  assert.equal([...parentsOf("restore files")], ["start claim"]);
});

test.run();
