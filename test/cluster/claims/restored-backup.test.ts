// @own-cluster
// What a cluster is like whose store was restored from a backup: claims are there again that had ended, and their pods,
// which their nodes had ended and make anew, with nothing in them; warm pods are nobody's again that a tenant was given.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { ifFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { HistoryError } from "../../../crds/client/watch/listing.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Lease, Pod } from "../../../crds/kubernetes.ts";
import { claimName } from "../../../crds/names.ts";
import { type Backup, backUp } from "../backup.ts";
import { createMemorySnapshots, type MemoryVolume } from "../snapshots/memory-snapshots.ts";
import { type PretendKubelet, startPretendKubelet } from "../snapshots/pretend-kubelet.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("restored backup");
/** Outlives the cluster's store, as a volume does. */
const volume: MemoryVolume = { archives: new Map(), versions: new Map(), touched: [], checkpoints: new Map() };
let tenancy: Tenancy;
let kubelet: PretendKubelet;
let operator: RunningOperator;
let before: { alice: Claim; dora: Claim; warm: Pod };

test.before(async () => {
  tenancy = await startTenancy("test-restored", { nodes: false });
  kubelet = await startPretendKubelet(tenancy.client);
  operator = startOperator("first");
  await tenancy.createWorkload("notes", { filesystem: { overlayDirs: ["/data"] } });
  await tenancy.createWorkload("hello");
  await tenancy.createPool("hellos", { workloadRef: "hello", size: 1 });
  await tenancy.until("the helper pod", () => kubelet.isHelperRunning());
  const warm = await tenancy.until("the warm pod", () => tenancy.members("hellos", "ready")[0]);
  const [alice, dora] = [await active("alice"), await active("dora")];
  before = { alice, dora, warm };
  const backup = await backUp(tenancy.cluster);
  await live();
  await restore(backup);
});
test.after(async () => {
  await tenancy?.stop();
  await kubelet?.stop();
});

function startOperator(identity: string): RunningOperator {
  const snapshots = createMemorySnapshots({ kubelet, volume, reach: async () => undefined });
  return tenancy.startOperator({ identity, snapshots, config: { leaseMs: 2000 } });
}

/** As the API server has it: what watches the cluster ends with its history. */
async function read(tenantId: string, workloadRef = "notes"): Promise<Claim | undefined> {
  const name = claimName({ tenantId, workloadRef });
  return await ifFound(tenancy.client.get(claims, { namespace: NAMESPACE, name }));
}

async function claim(tenantId: string, workloadRef = "notes"): Promise<void> {
  const metadata = { name: claimName({ tenantId, workloadRef }), namespace: NAMESPACE };
  await tenancy.client.create(claims, { metadata, spec: { tenantId, workloadRef, resume: true } });
}

async function active(tenantId: string, workloadRef = "notes"): Promise<Claim> {
  if ((await read(tenantId, workloadRef)) === undefined) await claim(tenantId, workloadRef);
  return await tenancy.until(`${tenantId}'s claim to be Active`, async () => {
    const found = await read(tenantId, workloadRef);
    return found?.status?.phase === "Active" && found;
  });
}

async function release(tenantId: string): Promise<void> {
  const { metadata } = await active(tenantId);
  await tenancy.client.delete(claims, { namespace: NAMESPACE, name: metadata.name });
  await tenancy.until(`${tenantId}'s release`, async () => (await read(tenantId)) === undefined);
}

/** What happens after the backup. */
async function live(): Promise<void> {
  kubelet.files.set(before.alice.status?.instanceUid ?? "", "of the session in the backup");
  await release("alice");
  const second = await active("alice");
  kubelet.files.set(second.status?.instanceUid ?? "", "of a later session");
  await release("alice");
  kubelet.files.set(before.dora.status?.instanceUid ?? "", "saved after the backup");
  await release("dora");
  assert.is((await active("bob", "hello")).status?.instanceUid, before.warm.metadata.uid);
}

async function restore(backup: Backup): Promise<void> {
  await backup.restore();
  assert.instance(await operator.done.catch((error: unknown) => error), HistoryError);
  await operator.stop();
  await kubelet.stop();
}

test("a warm pod of the backup is given to nobody, since a tenant may have been given it since", async () => {
  kubelet = await startPretendKubelet(tenancy.client);
  // Before there is an operator.
  await claim("carol", "hello");
  // Released in the same moment, when its pod has come back and shows no more than it did in the backup.
  await tenancy.client.delete(claims, { namespace: NAMESPACE, name: before.dora.metadata.name });
  operator = startOperator("second");
  const carols = await active("carol", "hello");
  assert.is.not(carols.status?.instanceUid, before.warm.metadata.uid);
  const reference = { namespace: NAMESPACE, name: before.warm.metadata.name };
  await tenancy.until("the warm pod's end", async () => {
    const pod = await ifFound(tenancy.client.get(pods, reference));
    return pod === undefined || pod.metadata.deletionTimestamp !== undefined;
  });
});

test("a claim whose pod came back without its files gets another pod, with the newest files", async () => {
  const { status } = await tenancy.until("another pod", async () => {
    const found = await read("alice");
    return found?.status?.phase === "Active" && found.status.podIncarnation === 1 && found;
  });
  assert.is(status?.source, "cold+data");
  assert.is.not(status?.instanceUid, before.alice.status?.instanceUid);
  assert.is(kubelet.files.get(status?.instanceUid ?? ""), "of a later session");
  const event = await tenancy.until("its Event", async () =>
    (await tenancy.eventsOf(before.alice.metadata.name)).find(({ reason }) => reason === "PodLost"),
  );
  assert.match(event.message ?? "", "came back without its files");
  await release("alice");
  assert.is(volume.archives.get("alice/notes")?.content, "of a later session");
});

test("the release of a claim whose pod came back without its files replaces nothing that was saved", async () => {
  await tenancy.until("dora's release", async () => (await read("dora")) === undefined);
  assert.is(volume.archives.get("dora/notes")?.content, "saved after the backup");
  await tenancy.until("an Event that says so", async () =>
    (await tenancy.eventsOf(before.dora.metadata.name)).some(({ reason }) => reason === "NotSaved"),
  );
});

/** The warm pod that there is, as the API server has it. */
function warmPod(): Promise<Pod> {
  const labelSelector = "tenancy.dev/pool=hellos,tenancy.dev/pool-status=ready";
  return tenancy.until("a warm pod", async () => {
    const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE, labelSelector });
    return items.find(({ metadata }) => metadata.deletionTimestamp === undefined);
  });
}

interface ManagedLease extends Lease {
  metadata: Lease["metadata"] & { managedFields: { time: string }[] };
}

/** Has another operator lead, after one whose Lease was changed. */
async function succeed(identity: string, change: (lease: ManagedLease) => void): Promise<void> {
  await operator.stop();
  const path = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/tenancy-operator`;
  const { body } = await tenancy.client.request({ method: "GET", path });
  const lease: ManagedLease = JSON.parse(body.toString());
  change(lease);
  await tenancy.client.request({ method: "PUT", path, body: JSON.stringify(lease) });
  operator = startOperator(identity);
}

const fromNow = (ms: number) => new Date(Date.now() + ms).toISOString();

test("a warm pod stays when another operator leads whose clock differs by an hour", async () => {
  for (const [index, offset] of [-3_600_000, 3_600_000].entries()) {
    const warm = await warmPod();
    await succeed(`clock-${index}`, ({ spec = {} }) => {
      spec.renewTime = fromNow(offset).replace("Z", "000Z");
    });
    assert.is((await active(`eve-${index}`, "hello")).status?.instanceUid, warm.metadata.uid);
  }
});

test("no warm pod stays where by the API server's clock nobody has led for an hour, whatever the Lease says", async () => {
  const warm = await warmPod();
  await succeed("late", ({ metadata, spec }) => {
    assert.ok(Math.abs(Date.parse(spec?.renewTime ?? "") - Date.now()) < 60_000);
    // Where nothing else changes, the API server keeps the times.
    metadata.labels = { changed: "true" };
    for (const entry of metadata.managedFields) entry.time = fromNow(-3_600_000).replace(/\.\d+Z/, "Z");
  });
  assert.is.not((await active("frank", "hello")).status?.instanceUid, warm.metadata.uid);
});

test.run();
