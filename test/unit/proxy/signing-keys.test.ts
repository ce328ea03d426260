import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import { watchSigningKeys } from "../../../edge/proxy/entry/signing-keys.ts";
import { eventually } from "../../eventually.ts";
import { object, startFakeCollection } from "../client/fake-collection.ts";
import { silentLog } from "../silent-log.ts";
import { closeAfter, closeAll } from "./start-proxy.ts";

const test = suite("watchSigningKeys");
test.after.each(closeAll);

const key = Buffer.alloc(32, "k").toString("base64");

function secret(version: number, data: Record<string, string>): Secret {
  return { ...object("tenancy-proxy-keys", version), data };
}

async function watchKeys(items: Secret[]) {
  const collection = await startFakeCollection({ onList: () => ({ resourceVersion: "10", items }) });
  const transport = createTransport({ config: { server: collection.server.url } });
  const stop = new AbortController();
  closeAfter(async () => {
    stop.abort();
    transport.close();
    await collection.server.close();
  });
  const logged: unknown[] = [];
  const keys = watchSigningKeys({
    client: createClusterClient({ transport }),
    namespace: "a",
    signal: stop.signal,
    log: { ...silentLog, error: ({ problem }: { problem?: unknown }) => void logged.push(problem) },
  });
  await eventually(() => keys.isKnown() && collection.watches.length === 1);
  return { keys, logged, watch: collection.watches[0] };
}

test("the keys are those of the Secret at this moment, and what makes them unusable is logged", async () => {
  const { keys, logged, watch } = await watchKeys([secret(5, { "1": key })]);
  assert.is(keys.current().length, 1);
  watch?.send("MODIFIED", secret(11, { "1": key, "2": key }));
  await eventually(() => keys.current().length === 2);
  watch?.send("MODIFIED", secret(12, { "1": key, "2": key, "3": key }));
  await eventually(() => keys.current().length === 0);
  watch?.send("MODIFIED", secret(13, { "3": key }));
  await eventually(() => keys.current().length === 1);
  watch?.send("DELETED", secret(14, { "3": key }));
  await eventually(() => keys.current().length === 0);
  assert.equal(logged, [
    "Secret tenancy-proxy-keys has 3 keys: keep the newest 2",
    "Secret tenancy-proxy-keys does not exist: create it with one key of at least 32 bytes",
  ]);
});

test("a Secret that was never there is no error: a front door without links needs no keys", async () => {
  const { keys, logged } = await watchKeys([]);
  assert.match(keys.problem() ?? "", "does not exist");
  assert.equal(logged, []);
});

test.run();
