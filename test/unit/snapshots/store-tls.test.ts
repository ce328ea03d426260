// @runtimes node bun deno
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection } from "../../../crds/snapshots/store-connection.ts";
import { createDirectEndpoint, type FindEndpoint } from "../../../crds/snapshots/store-endpoint.ts";
import { createSnapshotServer } from "../../../operator/snapshots/helper/server.ts";
import { makeSelfSigned } from "../../../operator/snapshots/self-signed.ts";
import { manualClock } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";
import { runningHelper, storeSecret } from "./helper-objects.ts";
import { call, key, load, save } from "./store-contract.ts";
import { TOKEN } from "./store-server.ts";

const NAME = "tenancy-snapshots";
const test = suite<{ folder: string }>("the snapshots server over TLS");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-tls-"));
  mkdirSync(join(context.folder, "volume"));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, maxRetries: 20 }));

/** A cluster with the helper pod and its Secret. */
function clusterWith(texts: Record<string, string>): MemoryApi {
  const api = new MemoryApi();
  api.add(pods, runningHelper("127.0.0.1"));
  api.add(secrets, storeSecret(texts));
  return api;
}

function selfSigned(): { key: string; cert: string } {
  const [from, until] = [Date.now() - 60_000, Date.now() + 3_600_000].map((at) => new Date(at)) as [Date, Date];
  const { certificate: cert, key } = makeSelfSigned({ name: NAME, from, until });
  return { key, cert };
}

async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

test("a client talks to the server with its certificate alone, and shows nobody else its token", async ({ folder }) => {
  const own = selfSigned();
  const server = createSnapshotServer({ root: join(folder, "volume"), tokens: () => [TOKEN], tls: own });
  const seen: string[] = [];
  const stranger = createServer(selfSigned(), (request, response) => {
    seen.push(`${request.method} ${request.url}`);
    response.end();
  });
  let port = await portOf(server);
  const { client } = clusterWith({ "tls.crt": own.cert, token: TOKEN });
  const endpoint = createDirectEndpoint({ client, namespace: "n" });
  // Where it is by now.
  const find: FindEndpoint = async (signal) => {
    const { options, ...found } = await endpoint(signal);
    return { ...found, options: { ...options, port } };
  };
  const store = createStoreClient({ connection: createStoreConnection({ endpoint: find }) });
  try {
    await save(store, "of the tenant");
    assert.is(await load(store), "of the tenant");
    // The address of a pod that is gone is another's.
    port = await portOf(stranger);
    for (const attempt of [() => store.look(key, call), () => save(store, "x", key, { replaces: "none" })]) {
      const error = await attempt().then(
        () => undefined,
        (caught: unknown) => caught,
      );
      assert.ok(error instanceof NetworkError, String(error));
    }
    assert.equal(seen, []);
  } finally {
    for (const each of [server, stranger]) {
      each.closeAllConnections();
      await new Promise((resolve) => each.close(resolve));
    }
  }
});

test("a save that is under way when the certificate is renewed comes to its end", async ({ folder }) => {
  const [own, next] = [selfSigned(), selfSigned()];
  const server = createSnapshotServer({ root: join(folder, "volume"), tokens: () => [TOKEN], tls: own });
  const port = await portOf(server);
  const api = clusterWith({ "tls.crt": own.cert, token: TOKEN });
  const clock = manualClock();
  const store = createStoreClient({
    connection: createStoreConnection({
      endpoint: createDirectEndpoint({ client: api.client, namespace: "n", port, clock }),
    }),
  });
  async function* content(): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(100_000, "a");
    api.add(secrets, storeSecret({ "tls.crt": next.cert, "tls.crt.before": own.cert, token: TOKEN }));
    clock.set(clock.now() + 60_000);
    assert.is((await store.look({ tenantId: "other", workloadRef: "w" }, call)).newest, undefined);
    yield Buffer.from("the end");
  }
  try {
    await save(store, content());
    assert.ok((await load(store))?.endsWith("the end"));
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test.run();
