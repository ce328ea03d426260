import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { saveFiles } from "../../../operator/claim/save-files.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { podTools } from "../../../operator/snapshots/pod-tools.ts";

const claim: Claim = {
  metadata: { name: "c", namespace: "n", uid: "claim-uid" },
  spec: { tenantId: "t", workloadRef: "w" },
  status: { phase: "Releasing", overlayId: "01" },
};

/** As what the directories have to be named, for the files of the pod to be saved. */
async function wantedOf({ isOld }: { isOld: boolean }): Promise<string | undefined> {
  const { initContainers } = podTools({ image: "tools:1", overlayDirs: ["/data"], diskGb: 1 });
  const older = initContainers.map((init) => ({ ...init, command: ["/bin/busybox", "sh", "-c", "cp a b"] }));
  const pod: Pod = {
    metadata: {
      ...{ name: "p", namespace: "n", uid: "pod-uid", labels: { [label.tenant]: "t" } },
      annotations: { [annotation.claimUid]: "claim-uid" },
    },
    spec: { containers: [], initContainers: isOld ? older : initContainers },
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
  assert.is(await wantedOf({ isOld: false }), "01");
});

test("saveFiles: those of a pod that names none are saved, whatever an older operator has left on the claim", async () => {
  assert.is(await wantedOf({ isOld: true }), undefined);
});

test.run();
