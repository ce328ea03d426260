import { test } from "uvu";
import * as assert from "uvu/assert";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { label } from "../../../crds/labels.ts";
import { createPool } from "../../../scripts/bench/fixtures/pool.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { answerJson, startFakeApiServer } from "../client/fake-api-server.ts";

test("BenchPool.remove waits for the last pod's end, since what is still being deleted slows the next path down", async () => {
  let show: ((type: string, object: object) => void) | undefined;
  const server = await startFakeApiServer(({ method, query }, response) => {
    if (query.get("watch") !== "true") {
      answerJson(response, method === "GET" ? { metadata: { resourceVersion: "1" }, items: [] } : { metadata: {} });
      return;
    }
    response.writeHead(200).flushHeaders();
    show = (type, object) => void response.write(`${JSON.stringify({ type, object })}\n`);
  });
  const transport = createTransport({ config: { server: server.url } });
  const { signal } = new AbortController();
  try {
    const client = createClusterClient({ transport });
    const pool = await createPool({ client }, { name: "p", size: 1, maxFillConcurrency: 1 });
    const pod = (resourceVersion: string, more: object = {}) => ({
      metadata: {
        ...{ name: "warm", namespace: "tenancy", uid: "u", resourceVersion },
        ...{ labels: { [label.pool]: "p", [label.poolStatus]: "ready" }, ...more },
      },
    });
    await waitUntil(() => show !== undefined, { what: "the watch", limitMs: 60_000, intervalMs: 1 });
    show?.("ADDED", pod("2"));
    await pool.untilFull(signal);

    let isRemoved = false;
    const removed = pool.remove(signal).then(() => {
      isRemoved = true;
    });
    show?.("MODIFIED", pod("3", { deletionTimestamp: "2026-01-01T00:00:00Z" }));
    await waitUntil(() => pool.warm.readyCount() === 0, { what: "the deletion", limitMs: 60_000, intervalMs: 1 });
    // A turn of the event loop, for what waits for the last ready pod alone.
    await new Promise((resolve) => setImmediate(resolve));
    assert.is(isRemoved, false, "the pod is still being deleted");
    show?.("DELETED", pod("4", { deletionTimestamp: "2026-01-01T00:00:00Z" }));
    await removed;
  } finally {
    transport.close();
    await server.close();
  }
});

test.run();
