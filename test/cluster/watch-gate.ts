import type { IncomingMessage } from "node:http";
import { Transform } from "node:stream";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";

/** Keeps what watches have to tell, kind by kind, for as long as a test wants; calls are answered as ever. */
export interface WatchGate {
  wrap(client: ClusterClient): ClusterClient;
  /** From now on watches of these tell nothing. Plurals; `pods` are those of workloads. */
  hold(...plurals: string[]): void;
  /** Lets them tell all that they have kept, in order. */
  letGo(): void;
}

/** @param options.opening whether watches of a held kind are not even opened */
export function createWatchGate({ opening = false }: { opening?: boolean } = {}): WatchGate {
  const held = new Set<string>();
  let open = Promise.resolve();
  let letGo: () => void = () => undefined;

  return {
    hold(...plurals) {
      for (const plural of plurals) held.add(plural);
      open = new Promise((resolve) => {
        letGo = resolve;
      });
    },
    letGo() {
      held.clear();
      letGo();
    },
    wrap: (client) => ({
      ...client,
      transport: {
        ...client.transport,
        async stream(request) {
          const { resource = "", path, signal } = request;
          const isHeld = () => held.has(resource) && (resource !== "pods" || !path.includes("kubernetes.io"));
          if (opening && isHeld()) await Promise.race([open, aborted(signal)]);
          const answer = await client.transport.stream(request);
          if (answer.kind !== "stream") return answer;
          const late = new Transform({
            async transform(chunk, _encoding, callback) {
              if (isHeld()) await open;
              callback(null, chunk);
            },
          });
          late.once("close", () => answer.response.destroy());
          answer.response.once("error", (error) => late.destroy(error));
          return { kind: "stream", response: answer.response.pipe(late) as unknown as IncomingMessage };
        },
      },
    }),
  };
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
