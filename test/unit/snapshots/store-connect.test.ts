// @waits
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection, type StoreEndpoint } from "../../../crds/snapshots/store-connection.ts";
import { call, key } from "./store-contract.ts";
import { serveStore } from "./store-server.ts";

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

test.run();
