import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps } from "../../../crds/client/built-in-resources.ts";
import { HistoryError } from "../../../crds/client/watch/listing.ts";
import { type Backup, backUp } from "../backup.ts";
import { type ControlPlaneUnderTest, namespace, sharedPlane, until } from "./control-plane-under-test.ts";
import { type Following, follow } from "./following.ts";

const test = suite("restored etcd");
let plane: ControlPlaneUnderTest;
let backup: Backup;

test.before(async () => {
  plane = await sharedPlane();
  await write("before", "first");
  backup = await backUp(plane.cluster);
});

async function write(name: string, text: string): Promise<void> {
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { text } };
  await plane.client.apply(configMaps, body, { fieldManager: "test", force: true });
}

/** What the informer fails with. */
async function failureOf({ done }: Following["informer"]): Promise<unknown> {
  let failure: unknown;
  done.catch((error: unknown) => {
    failure = error;
  });
  await until("the informer to end", () => failure !== undefined);
  return failure;
}

test("an informer ends at a history that went back, instead of waiting for changes that it takes for seen", async () => {
  const { informer, untilEqual } = follow(plane.client);
  await informer.synced;
  for (let count = 0; count < 20; count += 1) await write("after", `${count}`);
  await untilEqual(plane.client);
  const failure = failureOf(informer);
  await backup.restore();
  assert.instance(await failure, HistoryError);
});

test("it does so where the new history is longer than the one that it has seen", async () => {
  const { informer, untilEqual } = follow(plane.proxied);
  await informer.synced;
  await write("before", "second");
  await untilEqual(plane.client);
  const failure = failureOf(informer);
  plane.proxy.block();
  await backup.restore();
  for (let count = 0; count < 20; count += 1) await write("other", `${count}`);
  plane.proxy.admit();
  assert.instance(await failure, HistoryError);
});

test.run();
