import { randomBytes } from "node:crypto";
import * as v from "valibot";
import type { BuildContexts } from "../builds/build-contexts.ts";
import { isObjectName } from "../names.ts";
import type { StoreConnection } from "./store-connection.ts";
import { contextHeadSchema } from "./store-protocol.ts";

const DROP_LIMIT_MS = 5000;
const SHA256 = /^[0-9a-f]{64}$/;

/**
 * The build contexts of a snapshots server.
 *
 * @param options.volumeBytes the requested size of the volume, which may be a folder on a larger disk
 */
export function createContextClient(options: {
  connection: StoreConnection;
  volumeBytes: () => Promise<number | undefined>;
}): BuildContexts {
  const { connection, volumeBytes } = options;
  const { ask, send, openBytes, repeat, limited } = connection;

  return {
    put: (workload, content, call) =>
      limited(call, async (signal) => {
        const id = randomBytes(16).toString("hex");
        const received = `${pathOf(workload)}/${id}`;
        const query = new URLSearchParams({ most: String(call.mostBytes) });
        const bytes = await volumeBytes();
        if (bytes !== undefined) query.set("volume", String(bytes));
        try {
          const sent = await send(content, { path: `${received}?${query}`, signal });
          const other = await call.confirm();
          const body = Buffer.from(JSON.stringify({ id, sha256: sent.sha256, other }));
          const path = pathOf(workload);
          await repeat(signal, () => ask(v.object({}), { method: "POST", path, body, signal }));
          return sent;
        } catch (error) {
          const ending = { method: "DELETE", path: received, signal: AbortSignal.timeout(DROP_LIMIT_MS) } as const;
          // If this fails, the upload is deleted later as a leftover.
          await ask(v.object({}), ending).catch(() => undefined);
          throw error;
        }
      }),

    async open(workload, sha256, call) {
      const path = pathOf(workload);
      if (!SHA256.test(sha256)) return undefined;
      const readHead = (line: string) => ({
        expected: { sha256, ...v.parse(contextHeadSchema, JSON.parse(line)) },
      });
      const opened = await openBytes(`${path}/${sha256}`, { ...call, readHead });
      return opened && { sizeBytes: opened.head.expected.sizeBytes, content: opened.content, close: opened.close };
    },

    erase: (workload, call) =>
      limited(call, async (signal) => {
        await repeat(signal, () => ask(v.object({}), { method: "DELETE", path: pathOf(workload), signal }));
      }),
  };
}

function pathOf(workload: string): string {
  if (isObjectName(workload)) return `/v1/contexts/${workload}`;
  throw new TypeError(`Cannot keep a build context of "${workload}": that is not a valid name of a workload`);
}
