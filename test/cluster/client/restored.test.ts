// @runtimes node bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps } from "../../../crds/client/built-in-resources.ts";
import { HistoryError } from "../../../crds/client/watch/listing.ts";
import { type Backup, backUp } from "../backup.ts";
import { type ControlPlaneUnderTest, namespace, startControlPlaneUnderTest } from "./control-plane-under-test.ts";
import { follow } from "./following.ts";

const test = suite("restored etcd");
let plane: ControlPlaneUnderTest;
let backup: Backup;

test.before(async () => {
  plane = await startControlPlaneUnderTest("client-restored");
  await write("before", "first");
  backup = await backUp(plane.cluster);
});
test.after(() => plane?.stop());

async function write(name: string, text: string): Promise<void> {
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { text } };
  await plane.client.apply(configMaps, body, { fieldManager: "test", force: true });
}

const ended = (done: Promise<void>): Promise<unknown> =>
  done.then(
    () => undefined,
    (error: unknown) => error,
  );

test("an informer ends at a history that went back, instead of waiting for changes that it takes for seen", async () => {
  const { informer } = follow(plane.client);
  const end = ended(informer.done);
  await informer.synced;
  for (let count = 0; count < 20; count += 1) await write("after", `${count}`);
  await backup.restore();
  assert.instance(await end, HistoryError);
});

test("it does so where the new history is longer than the one that it has seen", async () => {
  const { informer } = follow(plane.proxied);
  const end = ended(informer.done);
  await informer.synced;
  await write("before", "second");
  plane.proxy.block();
  await backup.restore();
  for (let count = 0; count < 20; count += 1) await write("other", `${count}`);
  plane.proxy.admit();
  assert.instance(await end, HistoryError);
});

test.run();
