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

for (const { isApi, selector } of [
  { isApi: true, selector: "tenancy.dev/managed=true" },
  { isApi: false, selector: "tenancy.dev/managed=true,tenancy.dev/tenant" },
]) {
  test(isApi ? "the role api follows all managed pods" : "a gateway alone follows the pods of tenants", async () => {
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
      isApi,
      onChange: { claims: ignore, workloads: ignore, pods: ignore, triggers: ignore, pools: ignore },
      gateway: { workload: ignore, trigger: ignore },
      onFailure: (error) => {
        throw error;
      },
      signal: stop.signal,
      log: silentLog,
    });
    try {
      await Promise.all([cache.synced, cache.triggersSynced]);
      const asked = server.requests.filter(({ path }) => path.endsWith("/pods"));
      assert.equal(
        asked.map(({ query }) => query.get("labelSelector")),
        [selector, selector],
      );
      assert.is(cache.pools === undefined, !isApi);
    } finally {
      stop.abort();
      await cache.done;
      transport.close();
      await server.close();
    }
  });
}

test.run();
