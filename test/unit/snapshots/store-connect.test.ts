// @waits
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection, type StoreEndpoint } from "../../../crds/snapshots/store-connection.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { call, key } from "./store-contract.ts";
import { serveStore } from "./store-server.ts";

/** So often is asked what gets no answer otherwise. */
const MOST_TRIES = 3;

test("an address where nothing answers is given up in seconds, and asked for anew", async () => {
  const root = mkdtempSync(join(tmpdir(), "tenancy-connect-"));
  const served = await serveStore(root);
  let forgotten = 0;
  // Never gets an address to connect to, as one whose pod is gone never answers.
  const gone: StoreEndpoint = {
    ...served.endpoint,
    options: { host: "gone.test", port: 1, lookup: () => undefined },
    forget() {
      forgotten += 1;
    },
  };
  const connection = createStoreConnection({ endpoint: async () => (forgotten === 0 ? gone : served.endpoint) });
  const store = createStoreClient({ connection });
  const limited = { ...call, timeoutMs: 30_000 };
  assert.is((await store.look(key, limited)).state, "unmarked");
  assert.is(forgotten, 1);
  store.close();
  await served.close();
  rmSync(root, { recursive: true });
});

test("a server that does not listen yet is asked until it does, and what may not be repeated is not", async () => {
  const root = mkdtempSync(join(tmpdir(), "tenancy-connect-"));
  const served = await serveStore(root);
  const refusing: StoreEndpoint = { ...served.endpoint, options: { host: "127.0.0.1", port: await freePort() } };
  let asked = 0;
  const connection = createStoreConnection({
    async endpoint() {
      asked += 1;
      return asked <= MOST_TRIES ? refusing : served.endpoint;
    },
    startMs: 30_000,
  });
  const store = createStoreClient({ connection });
  async function* content(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("content");
  }
  try {
    assert.is((await store.look(key, { ...call, timeoutMs: 30_000 })).state, "unmarked");
    assert.is(asked, MOST_TRIES + 1);
    asked = 0;
    const sent = connection.send(content(), { path: "/v1/uploads", signal: call.signal });
    assert.match(String(await sent.catch(String)), "NetworkError");
    assert.is(asked, 1);
  } finally {
    store.close();
    await served.close();
    rmSync(root, { recursive: true });
  }
});

test.run();
