import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isExpired } from "../../../crds/client/api-error.ts";
import { configMaps } from "../../../crds/client/built-in-resources.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { type ControlPlaneUnderTest, namespace, sharedPlane, until } from "./control-plane-under-test.ts";
import { type Following, follow } from "./following.ts";

const test = suite("history that etcd has forgotten");
let plane: ControlPlaneUnderTest;
let following: Following | undefined;

test.before(async () => {
  // With its cache the API server would go on answering from what etcd has forgotten.
  plane = await sharedPlane();
  await plane.cluster.apiServer.stop();
  await plane.cluster.apiServer.start({ extraFlags: ["--watch-cache=false"] });
});

test.after.each(() => following?.stop());
// The last suite of the file.
test.after(() => plane.stop());

async function create(name: string): Promise<void> {
  await plane.client.create(configMaps, { metadata: { name, namespace } });
}

test("an informer whose resourceVersion was compacted away lists again, and learns what went and what came", async () => {
  const { client, proxied, proxy, cluster } = plane;
  for (const name of ["stays", "goes", "is-replaced"]) await create(name);
  following = follow(proxied, { pageSize: 2, timings: { backoffMs: 50, maxBackoffMs: 100 } });
  const { informer, states, changes, untilEqual } = following;
  await informer.synced;
  await until("the watch", () => states.at(-1) === "watching");
  const first = informer.store.get(`${namespace}/is-replaced`)?.metadata.uid;
  const lists = () => states.filter((state) => state === "empty").length;
  assert.is(lists(), 1);
  // It learns of nothing, and asks again from where it was once all of it is forgotten.
  proxy.freeze();
  for (const name of ["goes", "is-replaced"]) await client.delete(configMaps, { namespace, name });
  for (const name of ["is-replaced", "comes"]) await create(name);
  await cluster.etcd.compact();
  const seen = changes.length;
  proxy.cut();
  await until("the second list", () => lists() >= 2);
  await untilEqual(client);
  const learned = changes.slice(seen).map(({ type, object }) => `${type} ${object.metadata.name}`);
  assert.equal(learned.sort(), ["added comes", "added is-replaced", "deleted goes", "deleted is-replaced"]);
  assert.is.not(informer.store.get(`${namespace}/is-replaced`)?.metadata.uid, first);
});

test("list refuses to go on with pages that have expired, and an informer gets its list nevertheless", async () => {
  const { client, cluster } = plane;
  const page = await client.list(configMaps, { namespace, limit: 1 });
  await create("after-the-page");
  await cluster.etcd.compact();
  const rest = client.list(configMaps, { namespace, limit: 1, continue: page.metadata.continue });
  assert.ok(isExpired(await rest.catch((error: unknown) => error)));

  // History is forgotten between every two pages, as on a server that is too slow for its own compaction.
  let count = 0;
  const transport = {
    ...client.transport,
    async request(request: Parameters<typeof client.transport.request>[0]) {
      await create(`between-pages-${count++}`);
      await cluster.etcd.compact();
      return client.transport.request(request);
    },
  };
  const slow = createClusterClient({ transport });
  following = follow(slow, { pageSize: 1, timings: { backoffMs: 50, maxBackoffMs: 100 } });
  await following.informer.synced;
  await following.untilEqual(client);
  assert.equal(following.states.slice(0, 4), ["empty", "init-page", "empty", "init-listed"]);
});

test.run();
