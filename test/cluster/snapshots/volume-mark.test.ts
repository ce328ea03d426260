import { test } from "uvu";
import * as assert from "uvu/assert";
import { persistentVolumeClaims, secrets } from "../../../crds/client/built-in-resources.ts";
import { annotation } from "../../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { checkVolumeIsLatest, createObjectMark, createVolumeMark } from "../../../crds/snapshots/store-mark.ts";
import { renderSnapshotsClaim } from "../../../operator/snapshots/helper-pod.ts";
import { NAMESPACE as namespace, startTenancy, type Tenancy } from "../tenancy.ts";

let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("volume-mark", { nodes: false });
});

test.after(() => tenancy.stop());

test("that the volume was seen with its mark stays on its claim, and goes with it", async () => {
  const { client } = tenancy;
  const mark = createVolumeMark({ client, namespace, mayBeEmpty: false });
  const wasSeen = () => mark.wasSeen(new AbortController().signal);
  const failed = (call: Promise<unknown>) => call.then(String, (error: Error) => error.message);
  assert.match(await failed(wasSeen()), "not found");
  assert.match(await failed(mark.remember()), "not found");
  for (const round of [1, 2]) {
    const { metadata } = await client.create(persistentVolumeClaims, renderSnapshotsClaim({ namespace, size: "1Gi" }));
    assert.is(await wasSeen(), false, `round ${round}`);
    await mark.remember();
    await mark.remember();
    assert.is(
      await createVolumeMark({ client, namespace, mayBeEmpty: false }).wasSeen(new AbortController().signal),
      true,
    );
    const body = { metadata: { finalizers: null } };
    const reference = { namespace, name: metadata.name };
    await client.patch(persistentVolumeClaims, reference, { type: "merge", body });
    await client.delete(persistentVolumeClaims, reference);
  }
});

test("archives that were seen in one store are missed in another, unless they are given up", async () => {
  const { client } = tenancy;
  const { signal } = new AbortController();
  const common = { client, namespace, mayBeEmpty: false };
  const [first, second] = ["s3://first", "s3://second"].map((store) => createObjectMark({ ...common, store }));
  const givenUp = createObjectMark({ ...common, store: "s3://second", mayBeEmpty: true });
  const seen = () => Promise.all([first, second, givenUp].map((mark) => mark?.wasSeen(signal)));
  assert.equal(await seen(), [false, false, false]);
  await first?.remember();
  assert.equal(await seen(), [true, true, false]);
  await client.delete(secrets, { namespace, name: SNAPSHOTS_NAME });
  const metadata = { namespace, name: SNAPSHOTS_NAME, annotations: { other: "stays" } };
  await client.create(secrets, { apiVersion: "v1", kind: "Secret", metadata, data: { token: "MQ==" } });
  assert.equal(await seen(), [false, false, false]);

  const claim = await client.create(persistentVolumeClaims, renderSnapshotsClaim({ namespace, size: "1Gi" }));
  const volume = createVolumeMark(common);
  assert.is(await volume.wasSeen(signal), false);
  await volume.remember();
  assert.equal(await seen(), [true, true, false]);
  const reference = { namespace, name: SNAPSHOTS_NAME };
  await client.patch(persistentVolumeClaims, reference, { type: "merge", body: { metadata: { finalizers: null } } });
  await client.delete(persistentVolumeClaims, reference, claim.metadata.uid ? { uid: claim.metadata.uid } : {});
  assert.equal(await seen(), [false, false, false]);

  await first?.remember();
  assert.equal(await seen(), [true, true, false]);
  await second?.remember();
  // What was seen in this very store is never given up.
  assert.equal(await seen(), [true, true, true]);
  const { metadata: written, data } = await client.get(secrets, reference);
  assert.equal([written.annotations?.other, data], ["stays", { token: "MQ==" }]);
  await client.create(persistentVolumeClaims, renderSnapshotsClaim({ namespace, size: "1Gi" }));
  assert.is(await createVolumeMark(common).wasSeen(signal), true);
  assert.is(await createVolumeMark({ ...common, mayBeEmpty: true }).wasSeen(signal), false);
});

test("a volume that was left for object storage is not gone back to unless somebody says so", async () => {
  const { client } = tenancy;
  const { signal } = new AbortController();
  const check = () => checkVolumeIsLatest({ client, namespace }, signal).then(String, String);
  const bucket = createObjectMark({ client, namespace, mayBeEmpty: false, store: "s3://third" });
  // Of the test before: nothing was ever saved there.
  await bucket.remember();
  assert.is(await check(), "undefined");
  await createVolumeMark({ client, namespace, mayBeEmpty: true }).remember();
  assert.is(await check(), "undefined");
  await bucket.remember();
  assert.match(await check(), /StoreError: .* newer archives are in s3:\/\/third/);
  const body = { metadata: { annotations: { [annotation.volumeLeft]: null } } };
  await client.patch(persistentVolumeClaims, { namespace, name: SNAPSHOTS_NAME }, { type: "merge", body });
  assert.is(await check(), "undefined");
});

test.run();
