import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { ContainerState, Pod } from "../../../crds/kubernetes.ts";
import { lostFiles } from "../../../operator/claim/lost-files.ts";
import { RESTORE_GATE } from "../../../operator/snapshots/pod-tools.ts";
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
  return await lostFiles(by, of, testOperator({ exec }).context);
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

test.run();
