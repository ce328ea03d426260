import { configMaps } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { namespace } from "./control-plane-under-test.ts";

export interface Writers {
  /** Writes so far that the API server took. */
  count(): number;
  stop(): Promise<void>;
}

/** Creates, changes and deletes config maps, several at a time, each writer its own names, until it is stopped. */
export function startWriters(client: ClusterClient, options: { writers: number }): Writers {
  let stopped = false;
  let count = 0;

  async function write(writer: number): Promise<void> {
    for (let round = 0; !stopped; round++) {
      const ref = { namespace, name: `written-${writer}-${round % 5}` };
      await client.create(configMaps, { metadata: ref, data: { round: "0" } });
      count += 1;
      for (let change = 1; change <= 3 && !stopped; change++) {
        await client.patch(configMaps, ref, { type: "merge", body: { data: { round: String(change) } } });
        count += 1;
      }
      await client.delete(configMaps, ref);
      count += 1;
    }
  }

  const all = Promise.all(Array.from({ length: options.writers }, (_, writer) => write(writer)));
  return {
    count: () => count,
    async stop() {
      stopped = true;
      await all;
    },
  };
}
