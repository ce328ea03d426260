import { test } from "uvu";
import * as assert from "uvu/assert";
import { persistentVolumeClaims } from "../../../crds/client/built-in-resources.ts";
import { renderSnapshotsClaim } from "../../../operator/snapshots/helper-pod.ts";
import { createVolumeMark } from "../../../operator/snapshots/volume-mark.ts";
import {
  type ControlPlaneUnderTest,
  namespace,
  startControlPlaneUnderTest,
} from "../client/control-plane-under-test.ts";

let plane: ControlPlaneUnderTest;

test.before(async () => {
  plane = await startControlPlaneUnderTest("volume-mark");
});

test.after(() => plane.stop());

test("that the volume was seen with its mark stays on its claim, and goes with it", async () => {
  const { client } = plane;
  const mark = createVolumeMark({ client, namespace });
  const wasSeen = () => mark.wasSeen(new AbortController().signal);
  const failed = (call: Promise<unknown>) => call.then(String, (error: Error) => error.message);
  assert.match(await failed(wasSeen()), "not found");
  assert.match(await failed(mark.remember()), "not found");
  for (const round of [1, 2]) {
    const { metadata } = await client.create(persistentVolumeClaims, renderSnapshotsClaim({ namespace, size: "1Gi" }));
    assert.is(await wasSeen(), false, `round ${round}`);
    await mark.remember();
    await mark.remember();
    assert.is(await createVolumeMark({ client, namespace }).wasSeen(new AbortController().signal), true);
    const body = { metadata: { finalizers: null } };
    const reference = { namespace, name: metadata.name };
    await client.patch(persistentVolumeClaims, reference, { type: "merge", body });
    await client.delete(persistentVolumeClaims, reference);
  }
});

test.run();
