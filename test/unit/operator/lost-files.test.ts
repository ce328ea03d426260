import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { ContainerState, Pod } from "../../../crds/kubernetes.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { lostFiles } from "../../../operator/claim/lost-files.ts";
import { RESTORE_GATE } from "../../../operator/snapshots/pods/pod-tools.ts";
import { testOperator } from "./test-operator.ts";

const claim: Claim = {
  metadata: { name: "c" },
  spec: { tenantId: "a", workloadRef: "w" },
  status: { phase: "Active", overlayId: "uid.01" },
};

function pod(tools: ContainerState, source = "cold+data"): Pod {
  const status = { name: "tenancy-tools", image: "i", ready: false, restartCount: 0, state: tools };
  return {
    metadata: { name: "p", uid: "uid", annotations: { "tenancy.dev/source": source } },
    spec: { containers: [] },
    status: { initContainerStatuses: [status] },
  };
}

/** @param exitCode of the command that is run in the pod; without one, none may be */
async function lost(of: Pod, exitCode?: number, by = claim): Promise<string | undefined> {
  const exec: Exec = async ({ command }) => {
    if (exitCode === undefined) throw new Error("nothing was to be asked");
    assert.ok(command.includes(RESTORE_GATE));
    return { exitCode, stderr: "" };
  };
  const { context } = testOperator({ exec });
  const answered = createDeferred<void>();
  context.enqueueClaim = () => answered.resolve();
  const first = lostFiles(by, of, context);
  if (!first.isKnown) await answered.promise;
  const answer = first.isKnown ? first : lostFiles(by, of, context);
  assert.ok(answer.isKnown);
  return answer.value;
}

const ended = (message: string): ContainerState => ({ terminated: { exitCode: 0, message } });
const came = 'pod "p" came back without its files';

test("lostFiles: the pod tells of other directories than the tenant was given", async () => {
  assert.is(await lost(pod(ended("overlay 02"))), came);
  assert.is(await lost(pod(ended("overlay 01"))), undefined);
  const { overlayId: _, ...status } = { phase: "Active" as const, ...claim.status };
  assert.is(await lost(pod(ended("overlay 02")), undefined, { ...claim, status }), undefined, "of an older operator");
  const former = { ...claim, status: { ...claim.status, phase: "Active" as const, overlayId: "other.01" } };
  assert.is(await lost(pod(ended("overlay 02")), undefined, former), undefined, "an older operator gave it this pod");
});

test("lostFiles: a pod that waits for files where its claim was Active has none; one that passes by has them", async () => {
  assert.is(await lost(pod({ running: {} }), 0), came);
  assert.is(await lost(pod({ running: {} }), 1), undefined);
  assert.is(await lost(pod({ running: {} }, "cold")), undefined, "one that never waits");
});

test("lostFiles: a pod that does not answer holds up no reconcile, and is asked again after a failure", async () => {
  let fail = (_error: Error): void => undefined;
  let asked = 0;
  const exec: Exec = () => {
    asked += 1;
    return new Promise((_resolve, reject) => (fail = reject));
  };
  const answered = createDeferred<void>();
  const { context } = testOperator({ exec, enqueueClaim: () => answered.resolve() });
  const starting = pod({ running: {} });
  for (let runs = 0; runs < 2; runs += 1)
    assert.equal(lostFiles(claim, starting, context), { isKnown: false, result: undefined });
  assert.is(asked, 1);
  fail(new Error("no answer in 10 s"));
  await answered.promise;
  const failed = lostFiles(claim, starting, context);
  assert.ok(!failed.isKnown && (failed.result?.requeueAfterMs ?? 0) > 0);
});

test.run();
