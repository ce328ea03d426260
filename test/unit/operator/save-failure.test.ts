import { test } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { WorkState } from "../../../operator/background-work.ts";
import { saveFiles } from "../../../operator/claim/save-files.ts";
import type { HelperStart } from "../../../operator/snapshots/context.ts";
import { createHelperController } from "../../../operator/snapshots/controller.ts";
import type { SavedSnapshot } from "../../../operator/snapshots/save-pod.ts";
import { ExecFailure } from "../../../operator/snapshots/streams/exec-output.ts";
import { testOperator } from "../operator/test-operator.ts";
import { archive } from "../snapshots/helper-objects.ts";

const pod: Pod = { metadata: { name: "inst-t-w-1", namespace: "n", uid: "pod-uid" }, spec: { containers: [] } };
const other = {
  type: "Other",
  status: "True",
  lastTransitionTime: "2026-01-01T00:00:00Z",
  reason: "R",
  message: "",
} as const;
const locked = new ExecFailure("Cannot save the overlay directories: tar: can't open 'data/x': Permission denied", {
  exitCode: 1,
});

/** A claim that is being released, and what is written of it. */
function releasing(status: Partial<ClaimStatus> = {}) {
  const { api, context, events } = testOperator();
  api.add(claims, {
    metadata: { name: "claim-t-w" },
    spec: { tenantId: "t", workloadRef: "w", resume: true },
    status: { phase: "Releasing", ...status },
  });
  const claim = () => api.read(claims, "claim-t-w");
  const saveIs = (state: WorkState<SavedSnapshot>) => {
    context.saves = { ...context.saves, run: () => state };
    return saveFiles(claim(), pod, context);
  };
  return {
    ...{ events, status: () => claim().status, writes: () => api.calls.length },
    async fail(error: unknown, retryInMs = 1000) {
      const answer = await saveIs({ state: "failed", error, failures: 1, retryInMs });
      return answer.saved === undefined ? answer.result?.requeueAfterMs : undefined;
    },
    succeed: () => saveIs({ state: "done", value: archive }),
  };
}

const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
const failing = (since: string) =>
  ({ ...other, type: "FilesSaved", status: "False", lastTransitionTime: since }) as const;

function filesSavedOf(status: Claim["status"]) {
  return status?.conditions?.find(({ type }) => type === "FilesSaved");
}

test("saveFiles says which file it is, what to do, and since when", async () => {
  const { events, fail, status, writes } = releasing({ conditions: [other] });
  const before = Date.now();
  assert.is(await fail(locked), 1000);
  const { phase, reason, message = "", conditions = [] } = status() ?? {};
  assert.equal([phase, reason], ["ReleaseFailed", "SaveFailed"]);
  assert.match(message, "tar: can't open 'data/x': Permission denied. The pod is kept and the save tried again; ");
  assert.match(message, "kubectl -n n exec -it inst-t-w-1 -c workload -- /.tenancy/busybox sh");
  assert.match(message, "kubectl -n n annotate tenancyclaim claim-t-w tenancy.dev/discard=true");
  assert.equal(conditions[2], other, "another condition stays");
  const filesSaved = filesSavedOf(status());
  assert.is(filesSaved?.status, "False");
  assert.ok(Date.parse(filesSaved?.lastTransitionTime ?? "") >= before);
  assert.equal(
    events.map((event) => event.reason),
    ["ReleaseFailed"],
  );
  await fail(locked);
  assert.is(writes(), 1, "nothing new is to be told");
});

test("saveFiles reads nothing from a pod that carries another tenant", async () => {
  let reads = 0;
  const { api, context } = testOperator({
    snapshots: {
      async save() {
        reads += 1;
        return archive;
      },
    },
  });
  api.add(claims, {
    metadata: { name: "claim-t-w", uid: "claim-uid" },
    spec: { tenantId: "t", workloadRef: "w", resume: true },
    status: { phase: "Releasing" },
  });
  const labels = { [label.tenant]: "bob" };
  const annotations = { [annotation.claimUid]: "claim-uid" };
  api.add(pods, { ...pod, metadata: { ...pod.metadata, labels, annotations } });
  const claim = () => api.read(claims, "claim-t-w");
  const message = () => claim().status?.message ?? "";
  for (let run = 0; run < 100 && message() === ""; run += 1) {
    await saveFiles(claim(), pod, context);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.match(message(), 'carries the tenant "bob" and the claim claim-uid, not "t" and claim-uid');
  assert.is(reads, 0);
});

test("saveFiles keeps since when a save has failed, whatever it fails with next", async () => {
  const since = hoursAgo(23);
  const { fail, status } = releasing({ phase: "ReleaseFailed", conditions: [failing(since)] });
  assert.is(await fail(new ArchiveError("TooLarge", "it is too large")), 1000);
  assert.is(filesSavedOf(status())?.lastTransitionTime, since);
  assert.is(status()?.reason, "SaveFailed");
});

test("saveFiles says after its limit that a person has to act, and tries again once an hour", async () => {
  const { events, fail, status } = releasing({ phase: "ReleaseFailed", conditions: [failing(hoursAgo(25))] });
  assert.is(await fail(locked, 150_000), 3_600_000);
  assert.is(status()?.reason, "RetryLimitExceeded");
  assert.match(status()?.message ?? "", /Permission denied, since .*: a person has to act\. The pod is kept/);
  assert.is(filesSavedOf(status())?.reason, "RetryLimitExceeded");
  assert.equal(
    events.map((event) => event.reason),
    ["RetryLimitExceeded"],
  );
  assert.match(events[0]?.message ?? "", "annotate tenancyclaim claim-t-w tenancy.dev/discard=true");
});

test("saveFiles takes the condition back when the files are saved", async () => {
  const { succeed, status } = releasing({ phase: "ReleaseFailed", conditions: [other, failing(hoursAgo(1))] });
  await succeed();
  assert.equal(
    status()?.conditions?.map(({ type }) => type),
    ["Ready", "Reconciling", "Other"],
  );
  assert.is(status()?.phase, "Releasing");
});

test("saveFiles cuts an error that is longer than a status or an Event holds", async () => {
  const { events, fail, status } = releasing();
  await fail(new Error("x".repeat(65_536)));
  assert.ok((status()?.message?.length ?? 0) < 32_768);
  assert.match(status()?.message ?? "", "annotate tenancyclaim");
  assert.ok((events[0]?.message.length ?? 0) < 1024);
});

const helper = (uid: string, deletionTimestamp?: string, version = "this"): Pod => ({
  metadata: {
    ...{ name: "tenancy-snapshots", uid, annotations: { "tenancy.dev/template-hash": version } },
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  },
  spec: { containers: [] },
  status: { containerStatuses: [{ name: "s", image: "i", ready: true, restartCount: 0, state: { running: {} } }] },
});

/**
 * A save whose first attempt is cut, while the helper pod becomes another; resolves with the helper pods asked.
 *
 * @param steps what is there one after the other before the attempt, while which helper pod is wanted is not known at first
 */
async function savedWith(
  present: Pod | undefined,
  next?: Pod,
  steps: readonly { wanted?: Pod; isFailing?: boolean; at: Pod }[] = [],
): Promise<string[]> {
  const asked: string[] = [];
  let announce = (): void => undefined;
  const helperStart: HelperStart = {
    ...{ wanted: steps.length === 0 ? helper("") : undefined, isFailing: false, hasVolume: undefined },
    next: () => new Promise<void>((resolve) => (announce = resolve)),
    announce: () => announce(),
  };
  const { api, context } = testOperator({
    helperStart,
    snapshots: {
      runPreSave: async () => undefined,
      async save() {
        asked.push(api.read(pods, "tenancy-snapshots").metadata.uid ?? "none");
        if (asked.length > 1) return archive;
        if (next !== undefined) api.add(pods, next);
        if (next?.metadata.deletionTimestamp !== undefined)
          setTimeout(() => {
            api.add(pods, helper("two"));
            announce();
          });
        throw new NetworkError("the connection ended", { requestWasSent: true });
      },
    },
  });
  if (present !== undefined) api.add(pods, present);
  const owner = { labels: { "tenancy.dev/tenant": "t" }, annotations: { "tenancy.dev/claim-uid": "claim-uid" } };
  api.add(pods, { ...pod, metadata: { ...pod.metadata, ...owner } });
  const metadata = { name: "claim-t-w", uid: "claim-uid" };
  const claim = api.add(claims, { metadata, spec: { tenantId: "t", workloadRef: "w" } });
  let ending: Promise<unknown> = Promise.resolve();
  context.saves = {
    ...context.saves,
    run(_id, work) {
      ending = work(new AbortController().signal, () => undefined);
      return { state: "running" };
    },
  };
  await saveFiles(claim, pod, context);
  for (const step of steps) {
    await new Promise(setImmediate);
    const { at, ...known } = step;
    Object.assign(helperStart, known);
    api.add(pods, at);
    announce();
  }
  await ending;
  return asked;
}

test("saveFiles begins again where the helper pod was replaced in the middle, and fails where it was not", async () => {
  assert.equal(await savedWith(helper("one"), helper("one", "2026-01-01T00:00:00Z")), ["one", "two"], "it is leaving");
  assert.equal(await savedWith(helper("one"), helper("two")), ["one", "two"], "the next one runs already");
  assert.match(String(await savedWith(helper("one"), helper("one")).catch(String)), "the connection ended");
});

test("saveFiles asks no helper pod of another version, and none before it is known which is this version's", async () => {
  const former = helper("former", undefined, "former");
  const steps = [
    { wanted: helper(""), at: former },
    { wanted: helper(""), at: helper("one") },
  ];
  assert.equal(await savedWith(former, helper("two"), steps), ["one", "two"]);
});

test("saveFiles asks the helper pod that runs where the operator cannot make its own", async () => {
  const former = helper("former", undefined, "former");
  assert.equal(await savedWith(former, helper("two"), [{ isFailing: true, at: former }]), ["former", "two"]);
  const replaced = [
    { wanted: helper(""), at: former },
    { isFailing: true, at: former },
  ];
  assert.equal(await savedWith(former, helper("two"), replaced), ["former", "two"]);
});

test("the helper controller tells the releases that wait whether its last run failed", async () => {
  let announced = 0;
  const helperStart: HelperStart = {
    ...{ wanted: undefined, isFailing: false, hasVolume: undefined, next: async () => undefined },
    announce: () => (announced += 1),
  };
  const { api, context } = testOperator({ helperStart });
  api.onNext("get", new Error("no such quota"));
  const run = () => createHelperController(context).reconcile("tenancy-snapshots", {} as never);
  assert.match(String(await Promise.resolve(run()).catch(String)), "no such quota");
  assert.equal([helperStart.isFailing, announced], [true, 1]);
  await run();
  assert.equal([helperStart.isFailing, announced], [false, 1]);
});

test.run();
