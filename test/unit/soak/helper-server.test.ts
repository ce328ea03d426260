import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { stringify } from "yaml";
import { NetworkError } from "../../../crds/client/api-error.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection } from "../../../crds/snapshots/store-connection.ts";
import { createApiServerEndpoint } from "../../../crds/snapshots/store-endpoint.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { makeSelfSigned } from "../../../operator/snapshots/self-signed.ts";
import type { ApiClient } from "../../../scripts/cluster/kubernetes/api-client.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { startHelperServer } from "../../../scripts/soak/cluster/helper-server.ts";
import { decisionsOf } from "../../../scripts/soak/decisions.ts";
import { startFaultProxy } from "../../../scripts/soak/faults/fault-proxy.ts";
import { call, key, load, save } from "../snapshots/store-contract.ts";

const test = suite("the soak's helper pod");
const repository = join(import.meta.dirname, "..", "..", "..");

function secretData(): Record<string, string> {
  const [from, until] = [Date.now() - 60_000, Date.now() + 3_600_000].map((at) => new Date(at)) as [Date, Date];
  const { certificate, key: own } = makeSelfSigned({ name: SNAPSHOTS_NAME, from, until });
  const data = { "tls.crt": certificate, "tls.key": own, token: "a token" };
  return Object.fromEntries(Object.entries(data).map(([name, text]) => [name, Buffer.from(text).toString("base64")]));
}

/** Of an API server that is never asked. */
function kubeconfig(folder: string): string {
  const path = join(folder, "kubeconfig");
  const cluster = { server: "https://127.0.0.1:1", "certificate-authority-data": "" };
  writeFileSync(path, stringify({ clusters: [{ cluster }], users: [{ user: { token: "t" } }] }));
  return path;
}

test("its real program is reached through the proxy, with the proxy's faults", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-soak-helper-"));
  const bundle = join(folder, "snapshots.mjs");
  const entry = join(repository, "operator/snapshots/server-main.ts");
  await runCommand(join(repository, "node_modules/.bin/bun"), ["build", "--target=node", entry, "--outfile", bundle]);
  const root = join(folder, "pod");
  mkdirSync(join(root, "snapshots"), { recursive: true });
  const data = secretData();
  const api = { call: async () => ({ status: 200, text: JSON.stringify({ data }) }) } as unknown as ApiClient;
  const helper = await startHelperServer({ api, root, podUid: "a-pod", bundle });
  let port: number | undefined = await helper.port;
  const proxy = await startFaultProxy({
    ...{ name: "operator", kubeconfigPath: kubeconfig(folder), decisions: decisionsOf(1, "proxy") },
    helperPort: async () => port,
  });
  try {
    const config = await loadClusterConfig({ kubeconfigPath: proxy.kubeconfigPath });
    const client = { get: async () => ({ metadata: {}, data }) } as unknown as ClusterClient;
    const endpoint = createApiServerEndpoint({ client, namespace: "tenancy", config });
    const store = createStoreClient({ connection: createStoreConnection({ endpoint }) });
    await save(store, "of a tenant");
    assert.is(await load(store), "of a tenant");
    const errorNow = () =>
      store.look(key, call).then(
        () => undefined,
        (error: unknown) => error,
      );
    proxy.faults.refuse = { probability: 1, statuses: [500] };
    assert.ok((await errorNow()) instanceof StoreError);
    proxy.heal();
    proxy.faults.cutAnswer = 1;
    assert.ok((await errorNow()) instanceof NetworkError);
    proxy.heal();
    port = undefined;
    const away = await errorNow();
    assert.ok(away instanceof StoreError && away.isTransient);
  } finally {
    helper.process.kill("SIGKILL");
    await proxy.close();
    rmSync(folder, { recursive: true, maxRetries: 20 });
  }
});

test.run();
