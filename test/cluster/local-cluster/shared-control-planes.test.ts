// @own-cluster
import { test } from "uvu";
import * as assert from "uvu/assert";
import { namespaces } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { claims } from "../../../crds/kinds.ts";
import { finalizer } from "../../../crds/labels.ts";
import { useControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { lending } from "../../../scripts/test/lending.ts";
import { SHARED_CONTROL_PLANE, startSharedControlPlane } from "../../../scripts/test/shared-control-planes.ts";

const NAMESPACE = "tenancy";

async function withClient<T>(folder: string | undefined, use: (client: ClusterClient) => Promise<T>): Promise<T> {
  const { kubeconfigPath } = await useControlPlane(folder ?? "none was started");
  const transport = createTransport({ config: await loadClusterConfig({ kubeconfigPath }), role: "test" });
  try {
    return await use(createClusterClient({ transport }));
  } finally {
    transport.close();
  }
}

test("a control plane that is lent again holds nothing of before, and one that cannot be brought back is not lent again", async () => {
  const said: string[] = [];
  const shared = lending(startSharedControlPlane, { what: "control plane", log: (message) => said.push(message) });
  try {
    const first = await shared.lend(async ({ [SHARED_CONTROL_PLANE]: folder }) => {
      await withClient(folder, async (client) => {
        await client.create(namespaces, { metadata: { name: "left" } });
        for (const namespace of ["left", NAMESPACE]) {
          const metadata = { name: "left", namespace, finalizers: [finalizer.release] };
          await client.create(claims, { metadata, spec: { tenantId: "ann", workloadRef: "left" } });
        }
      });
      return folder;
    });
    const second = await shared.lend(async ({ [SHARED_CONTROL_PLANE]: folder }) => {
      await withClient(folder, async (client) => {
        assert.equal((await client.list(claims, {})).items, []);
        const { items } = await client.list(namespaces, {});
        assert.equal(items.map(({ metadata }) => metadata.name).sort(), [
          "default",
          "kube-node-lease",
          "kube-public",
          "kube-system",
          NAMESPACE,
        ]);
        await client.patch(
          namespaces,
          { name: NAMESPACE },
          { type: "merge", body: { metadata: { labels: { a: "b" } } } },
        );
      });
      return folder;
    });
    assert.is(second, first);
    assert.equal(said, ["a control plane is not used again: /api/v1/namespaces/tenancy was changed"]);
    assert.is.not(await shared.lend(async ({ [SHARED_CONTROL_PLANE]: folder }) => folder), first);
  } finally {
    await shared.stop();
  }
});

test.run();
