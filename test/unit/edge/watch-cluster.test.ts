// @runtimes bun node
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { createClaimWaiters } from "../../../edge/cluster/claim-waiters.ts";
import { watchCluster } from "../../../edge/cluster/watch-cluster.ts";
import { answerJson, startFakeApiServer } from "../client/fake-api-server.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("watchCluster");

const ofTenants = "tenancy.dev/managed=true,tenancy.dev/tenant";
for (const { role, selector, kinds } of [
  { role: "api", selector: "tenancy.dev/managed=true", kinds: ["pools", "triggers"] },
  { role: "gateway", selector: ofTenants, kinds: ["triggers"] },
  // Triggers may hold credentials of guards.
  { role: "proxy", selector: ofTenants, kinds: [] },
] as const) {
  test(`the role ${role} watches what it needs and no more`, async () => {
    const server = await startFakeApiServer(({ query }, response) => {
      if (query.get("watch") === null) answerJson(response, { metadata: { resourceVersion: "10" }, items: [] });
      else response.writeHead(200).flushHeaders();
    });
    const transport = createTransport({ config: { server: server.url } });
    const stop = new AbortController();
    const ignore = () => undefined;
    const cache = watchCluster({
      client: createClusterClient({ transport }),
      namespace: "a",
      waiters: createClaimWaiters(),
      roles: new Set([role]),
      onChange: { claims: ignore, workloads: ignore, pods: ignore, triggers: ignore, pools: ignore },
      gateway: { workload: ignore, trigger: ignore },
      onFailure: (error) => {
        throw error;
      },
      signal: stop.signal,
      log: silentLog,
    });
    try {
      await Promise.all([cache.synced, cache.triggers?.synced]);
      const asked = server.requests.filter(({ path }) => path.endsWith("/pods"));
      assert.equal(
        asked.map(({ query }) => query.get("labelSelector")),
        [selector, selector],
      );
      const asOf = (kind: string) => server.requests.some(({ path }) => path.endsWith(`/tenancy${kind}`));
      assert.equal(["pools", "triggers"].filter(asOf), kinds);
    } finally {
      stop.abort();
      await cache.done;
      transport.close();
      await server.close();
    }
  });
}

test.run();
