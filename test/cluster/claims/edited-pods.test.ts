import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { isPodOf } from "../../../crds/claims/claim-pod.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pods that somebody edits");

/** Of a claimed pod, with another value. */
const marks: readonly (readonly ["labels" | "annotations", key: string, changed: string])[] = [
  ["labels", "managed", "false"],
  ["labels", "workload", "other"],
  ["labels", "tenant", "victim"],
  ["labels", "binding", "other.0"],
  ["labels", "pool", "other"],
  ["labels", "pool-status", "ready"],
  ["annotations", "claim-uid", "the victim's"],
  ["annotations", "claim", "claim-victim-kept"],
  ["annotations", "incarnation", "other"],
  ["annotations", "source", "pool+data"],
  ["annotations", "overlay-dirs", '["/etc"]'],
  ["annotations", "disk-gb", "99"],
  ["annotations", "pre-save", "other"],
  ["annotations", "idle-action", "destroy"],
  ["annotations", "idle-timeout-seconds", "1"],
  ["annotations", "claimed-at", "2020-01-01T00:00:00Z"],
  ["annotations", "template-hash", "other"],
  ["annotations", "isolation", "other"],
  ["annotations", "workload-uid", "other"],
];
/** What neither the claim nor the pod's spec can tell: an edit that no operator saw stays. */
const UNKNOWN = /pre-save|idle|claimed-at|template-hash|isolation|workload-uid/;
const filesystem = { overlayDirs: ["/data", "/home/user"], preSave: { command: ["true"] } };

/** A pod for each edit. */
const POOL_SIZE = 2 * marks.length;

interface Edit {
  readonly field: "labels" | "annotations";
  readonly key: string;
  /** `null` removes it. */
  readonly value: string | null;
}

let tenancy: Tenancy;
let snapshots: Snapshots;
let saved: string[];
let operator: RunningOperator;
let victim: Claim;

test.before(async () => {
  tenancy = await startTenancy("test-edited-pods");
  const recorded = await recordSaves(tenancy);
  saved = recorded.saved;
  snapshots = { ...recorded.snapshots, runPreSave: async () => undefined };
  operator = tenancy.startOperator({ snapshots });
  await tenancy.createWorkload("kept", { filesystem, idle: { timeoutSeconds: 3600 } });
  await tenancy.createWorkload("pooled");
  await tenancy.createPool("warm", { workloadRef: "pooled", size: POOL_SIZE });
  victim = await claimed("victim");
});
test.after(async () => {
  await tenancy?.stop();
});

async function claimed(tenantId: string): Promise<Claim> {
  const { metadata } = await tenancy.createClaim(tenantId, "kept");
  return tenancy.untilClaim(metadata.name, { phase: "Active" });
}

function edits(): Edit[] {
  return marks.flatMap(([field, short, changed]) => {
    const key = `tenancy.dev/${short}`;
    const value = short === "claim-uid" ? (victim.metadata.uid ?? "") : changed;
    return [
      { field, key, value: null },
      { field, key, value },
    ];
  });
}

function apply(pod: Pod, edit: readonly Edit[]): Promise<Pod> {
  const metadata = { labels: {}, annotations: {} };
  for (const { field, key, value } of edit) Object.assign(metadata[field], { [key]: value });
  return tenancy.client.patch(
    pods,
    { namespace: NAMESPACE, name: pod.metadata.name },
    { type: "merge", body: { metadata } },
  );
}

async function podNamed(name: string | undefined): Promise<Pod | undefined> {
  const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE, fieldSelector: `metadata.name=${name}` });
  return items[0];
}

function marksOf({ metadata: { labels = {}, annotations = {} } }: Pod): string {
  const own = [...Object.entries(labels), ...Object.entries(annotations)].filter(([key]) =>
    key.startsWith("tenancy.dev/"),
  );
  return JSON.stringify(own.sort());
}

async function describe(edit: readonly Edit[], pod: Pod): Promise<string> {
  return `${JSON.stringify(edit)}\nbefore ${marksOf(pod)}\nnow ${marksOf((await podNamed(pod.metadata.name)) ?? pod)}`;
}

async function untilFull(): Promise<void> {
  await tenancy.until("a full pool", () => tenancy.members("warm", "ready").length === POOL_SIZE);
}

/** Until the pod is as it was, or gone where that is allowed. */
async function untilRepaired(pod: Pod, edit: readonly Edit[]): Promise<void> {
  const what = await describe(edit, pod);
  await tenancy.until(`as it was: ${what}`, async () => {
    const present = await podNamed(pod.metadata.name);
    return present !== undefined && marksOf(present) === marksOf(pod);
  });
}

/** The claim has the pod that it had, and its release saves the files and ends. */
async function staysAndReleases(claim: Claim, edit: readonly Edit[]): Promise<void> {
  const { name } = claim.metadata;
  const { instanceId = "", instanceUid } = claim.status ?? {};
  const present = await tenancy.client.get(claims, { namespace: NAMESPACE, name });
  assert.equal([present.status?.phase, present.status?.instanceUid], ["Active", instanceUid], JSON.stringify(edit));
  const pod = await podNamed(instanceId);
  assert.ok(pod !== undefined && isPodOf(pod, present), JSON.stringify(edit));
  await tenancy.release(name);
  assert.ok(saved.includes(instanceId), `files of ${name} were not saved after ${JSON.stringify(edit)}`);
  await tenancy.until(`pod of ${name} gone`, async () => (await podNamed(instanceId)) === undefined);
  assert.equal(
    tenancy.phases.get(name),
    ["Pending", "Active", "Releasing", "Released", "(gone)"],
    JSON.stringify(edit),
  );
}

async function victimIsUnharmed(): Promise<void> {
  const present = await tenancy.client.get(claims, { namespace: NAMESPACE, name: victim.metadata.name });
  assert.equal(present.status, victim.status);
  assert.equal(
    (await tenancy.podsOf(victim)).map(({ metadata }) => metadata.uid),
    [victim.status?.instanceUid],
  );
}

/** Claims a pod for each edit, and gives both. */
async function claimedPods(prefix: string, list: readonly (readonly Edit[])[]) {
  return Promise.all(
    list.map(async (edit, index) => {
      const claim = await claimed(`${prefix}${index}`);
      return { edit, claim, pod: (await podNamed(claim.status?.instanceId)) as Pod };
    }),
  );
}

test("each mark of a claimed pod, removed or changed, is put back, and the release saves the files", async () => {
  const all = await claimedPods(
    "live",
    edits().map((edit) => [edit]),
  );
  for (const { pod, edit } of all) await apply(pod, edit);
  await Promise.all(all.map(({ pod, edit }) => untilRepaired(pod, edit)));
  await Promise.all(all.map(({ claim, edit }) => staysAndReleases(claim, edit)));
  await victimIsUnharmed();
});

test("all marks of a claimed pod removed at once, or given to another tenant, are put back", async () => {
  const removed = edits().filter(({ value }) => value === null);
  const forged = edits().filter(({ key, value }) => value !== null && /tenant|claim|binding/.test(key));
  const all = await claimedPods("whole", [removed, forged]);
  for (const { pod, edit } of all) await apply(pod, edit);
  await Promise.all(all.map(({ pod, edit }) => untilRepaired(pod, edit)));
  await Promise.all(all.map(({ claim, edit }) => staysAndReleases(claim, edit)));
  await victimIsUnharmed();
});

test("marks that were edited while no operator ran are put back from the claim, and the release saves the files", async () => {
  const single = edits().map((edit) => [edit]);
  const removed = edits().filter(({ value, key }) => value === null && !UNKNOWN.test(key));
  const all = await claimedPods("down", [...single, removed]);
  await operator.stop();
  for (const { pod, edit } of all) await apply(pod, edit);
  operator = tenancy.startOperator({ snapshots });
  const known = all.filter(({ edit }) => edit.every(({ key }) => !UNKNOWN.test(key)));
  await Promise.all(known.map(({ pod, edit }) => untilRepaired(pod, edit)));
  // Without an operator that saw the edit, this ends its claim.
  const isEnded = ({ edit }: (typeof all)[number]) =>
    edit.some(({ key, value }) => /idle-timeout/.test(key) && value !== null);
  await Promise.all(all.filter((one) => !isEnded(one)).map(({ claim, edit }) => staysAndReleases(claim, edit)));
  await Promise.all(all.filter(isEnded).map(({ claim }) => tenancy.untilGone(claim.metadata.name)));
  await victimIsUnharmed();
});

for (const when of ["while an operator leads", "while none runs"]) {
  test(`warm pods that were edited ${when} are as they were or gone, the pool is full, and its pods go to one tenant each`, async () => {
    await untilFull();
    // The watch may still show the edits of the test before.
    const warm = await Promise.all(tenancy.members("warm", "ready").map(({ metadata }) => podNamed(metadata.name)));
    const all = edits().map((edit, index) => ({ edit, pod: warm[index] as Pod }));
    if (when === "while none runs") await operator.stop();
    for (const { edit, pod } of all) await apply(pod, [edit]);
    if (when === "while none runs") operator = tenancy.startOperator({ snapshots });
    for (const { edit, pod } of all) {
      const what = await describe([edit], pod);
      await tenancy.until(`as it was, or gone: ${what}`, async () => {
        const present = await podNamed(pod.metadata.name);
        if (present === undefined || present.metadata.uid !== pod.metadata.uid) return true;
        return marksOf(present) === marksOf(pod) || (when === "while none runs" && UNKNOWN.test(edit.key));
      });
    }
    await untilFull();
    const { metadata } = await tenancy.createClaim(`user-${when.length}`, "pooled");
    const claim = await tenancy.untilClaim(metadata.name, { phase: "Active" });
    assert.is(claim.status?.source, "pool");
    await victimIsUnharmed();
    await tenancy.release(metadata.name);
  });
}

test("a bound pod that lost its claim while no operator ran, and a warm one that got a claim's mark, are deleted", async () => {
  await untilFull();
  const [first, second] = tenancy.members("warm", "ready") as [Pod, Pod];
  await operator.stop();
  const all: Edit[] = marks.map(([field, key]) => ({ field, key: `tenancy.dev/${key}`, value: null }));
  await apply(
    first,
    all.filter(({ key }) => !key.endsWith("template-hash")),
  );
  await apply(second, [{ field: "annotations", key: "tenancy.dev/last-activity", value: "2026-01-01T00:00:00Z" }]);
  operator = tenancy.startOperator({ snapshots });
  for (const { metadata } of [first, second])
    await tenancy.until(`${metadata.name} gone`, async () => (await podNamed(metadata.name)) === undefined);
  await untilFull();
});

test.run();
