import type { IncomingMessage } from "node:http";
import { Transform } from "node:stream";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";

/** How late a watch that is held back tells everything, in milliseconds. */
const DELAY_MS = 3000;

/** A client whose watch of one resource, by its plural, tells everything three seconds late. */
export function heldBack(client: ClusterClient, plural: string): ClusterClient {
  return {
    ...client,
    transport: {
      ...client.transport,
      async stream(request) {
        const answer = await client.transport.stream(request);
        if (answer.kind !== "stream" || request.resource !== plural) return answer;
        const late = new Transform({
          transform(chunk, _encoding, callback) {
            setTimeout(() => this.push(chunk), DELAY_MS);
            callback();
          },
        });
        late.once("close", () => answer.response.destroy());
        return { kind: "stream", response: answer.response.pipe(late) as unknown as IncomingMessage };
      },
    },
  };
}
