import { test } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { saveFiles } from "../../../operator/claim/save-files.ts";
import { onS3, testOperator } from "../operator/test-operator.ts";

/** As what the directories have to be named, for the files of the pod to be saved. */
async function wantedOf(overlayId: string): Promise<string | undefined> {
  let wanted: string | undefined;
  const { api, context } = testOperator({
    env: onS3,
    snapshots: {
      runPreSave: async () => undefined,
      save: async (_key, _pod, options) => {
        wanted = options.overlayId;
        throw new Error("it is known");
      },
    },
  });
  const claim = api.add(claims, {
    metadata: { name: "c", uid: "claim-uid" },
    spec: { tenantId: "t", workloadRef: "w" },
    status: { phase: "Releasing", overlayId },
  });
  const pod = api.add(pods, {
    metadata: {
      ...{ name: "p", uid: "pod-uid", labels: { [label.tenant]: "t" } },
      annotations: { [annotation.claimUid]: "claim-uid" },
    },
    spec: { containers: [] },
  });
  const ended = new Promise<void>((resolve) => {
    context.enqueueClaim = () => resolve();
  });
  await saveFiles(claim, pod, context);
  await ended;
  return wanted;
}

test("saveFiles: the directories have to be those that the tenant was given", async () => {
  assert.is(await wantedOf("pod-uid.01"), "01");
});

test("saveFiles: those of a pod that an older operator gave the claim are saved, whatever it has left there of the one before", async () => {
  assert.is(await wantedOf("former-uid.01"), undefined);
});

test.run();
