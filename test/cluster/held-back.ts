import type { IncomingMessage } from "node:http";
import { Transform } from "node:stream";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";

/** By their plurals, so that a name that no watch has does not pass for a late one. */
type HeldBack = "pods" | "jobs" | "tenancyclaims" | "tenancyworkloads";

/** A client whose watch of one resource tells everything three seconds late, or as late as is said. */
export function heldBack(client: ClusterClient, plural: HeldBack, delayMs = 3000): ClusterClient {
  return {
    ...client,
    transport: {
      ...client.transport,
      async stream(request) {
        const answer = await client.transport.stream(request);
        if (answer.kind !== "stream" || request.resource !== plural) return answer;
        const late = new Transform({
          transform(chunk, _encoding, callback) {
            setTimeout(() => this.push(chunk), delayMs);
            callback();
          },
        });
        late.once("close", () => answer.response.destroy());
        return { kind: "stream", response: answer.response.pipe(late) as unknown as IncomingMessage };
      },
    },
  };
}
