import { Agent } from "node:http";
import type { AddressInfo } from "node:net";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import { createContextClient } from "../../../crds/snapshots/context-client.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection, type StoreEndpoint } from "../../../crds/snapshots/store-connection.ts";
import { createUsageClient } from "../../../crds/snapshots/usage-client.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { createSnapshotServer, type SnapshotServerOptions } from "../../../operator/snapshots/helper/server.ts";

/** False where a file of test/cluster/snapshots runs the tests over object storage. */
export const isOverVolume = process.env.TENANCY_TEST_STORE !== "s3";

export const TOKEN = "a token";

/** The system's, without the pauses of up to a second between the tries of a call. */
export const clockWithoutPauses: Clock = {
  now: systemClock.now,
  after: (delayMs, callback) => systemClock.after(delayMs > 1000 ? delayMs : 1, callback),
};

/** A snapshots server of this process, and a client of it. */
export interface ServedStore {
  readonly store: SnapshotStore;
  readonly contexts: BuildContexts;
  readonly usage: UsageStore;
  readonly endpoint: StoreEndpoint;
  close(): Promise<void>;
}

export async function serveStore(
  root: string,
  options: {
    isMarked?: () => boolean;
    aliveMs?: number;
    volumeBytes?: number | undefined;
    space?: SnapshotServerOptions["space"];
  } = {},
): Promise<ServedStore> {
  const server = createSnapshotServer({ root, tokens: () => [TOKEN], aliveMs: options.aliveMs, space: options.space });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const agent = new Agent({ keepAlive: true });
  const { port } = server.address() as AddressInfo;
  const endpoint = { secure: false, options: { host: "127.0.0.1", port, agent }, token: TOKEN };
  const { isMarked = () => false } = options;
  if (!isOverVolume) {
    const { makeObjectStore } = await import("./object-store.ts");
    const store = await makeObjectStore({ isMarked });
    const { contexts, usageRecords: usage } = store;
    return { store, contexts, usage, endpoint, close: () => close().finally(store.close) };
  }
  const connection = createStoreConnection({ endpoint: async () => endpoint });
  const wasMarked = async () => isMarked();
  return {
    store: createStoreClient({ connection, wasMarked }),
    contexts: createContextClient({ connection, volumeBytes: async () => options.volumeBytes }),
    usage: createUsageClient({ connection, wasMarked }),
    endpoint,
    close,
  };

  async function close(): Promise<void> {
    agent.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}
