import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { saveFiles } from "../../../operator/claim/save-files.ts";
import type { OperatorContext } from "../../../operator/context.ts";

/** As what the directories have to be named, for the files of the pod to be saved. */
async function wantedOf(overlayId: string): Promise<string | undefined> {
  const claim: Claim = {
    metadata: { name: "c", namespace: "n", uid: "claim-uid" },
    spec: { tenantId: "t", workloadRef: "w" },
    status: { phase: "Releasing", overlayId },
  };
  const pod: Pod = {
    metadata: {
      ...{ name: "p", namespace: "n", uid: "pod-uid", labels: { [label.tenant]: "t" } },
      annotations: { [annotation.claimUid]: "claim-uid" },
    },
    spec: { containers: [] },
  };
  let begun: Promise<string | undefined> | undefined;
  const context = {
    saves: {
      run(_id: string, work: (signal: AbortSignal) => Promise<string | undefined>) {
        begun = work(new AbortController().signal);
        return { state: "running" };
      },
    },
    client: { get: async () => pod },
    config: { namespace: "n", snapshots: { store: { place: { kind: "s3" } } } },
    metrics: { timeSnapshot: (_operation: string, work: () => unknown) => work() },
    snapshots: {
      runPreSave: async () => undefined,
      save: async (_key: unknown, _pod: Pod, { overlayId }: { overlayId?: string }) => overlayId,
    },
  };
  await saveFiles(claim, pod, context as unknown as OperatorContext);
  return await begun;
}

test("saveFiles: the directories have to be those that the tenant was given", async () => {
  assert.is(await wantedOf("pod-uid.01"), "01");
});

test("saveFiles: those of a pod that an older operator gave the claim are saved, whatever it has left there of the one before", async () => {
  assert.is(await wantedOf("former-uid.01"), undefined);
});

test.run();
