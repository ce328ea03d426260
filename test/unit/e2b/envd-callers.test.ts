// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createEnvdCheck } from "../../../edge/e2b/envd/authenticate.ts";
import { createApiKeyCheck } from "../../../edge/http/api-key.ts";
import { createClientAddress } from "../../../edge/http/client-address.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("callers of envd");

test("an unknown token counts for the client behind a trusted proxy, as at the REST API", async () => {
  const seen: (string | undefined)[] = [];
  const actorOf = (_: string, from?: () => string | undefined) => {
    seen.push(from?.());
    return undefined;
  };
  const addressOf = createClientAddress({ trusted: [{ address: "10.0.0.0", prefix: 8, family: "ipv4" }] });
  const authenticate = createApiKeyCheck(() => undefined, undefined, { actorOf }, addressOf);
  const tokens = { sign: async () => "", current: async () => [], read: async () => undefined, reader: never };
  const check = createEnvdCheck({
    ...{ tokens, authenticate, clock: manualClock() },
    ...{ checkPage: () => undefined, holderOf: () => undefined, admit: () => undefined },
  });
  for (const [peer, headers] of [
    ["10.1.1.1", { authorization: "Bearer a.b.c" }],
    ["10.1.1.1", { "x-api-key": "a.b.c" }],
    ["192.0.2.1", { "x-api-key": "a.b.c" }],
  ] as const) {
    const forwarded = { "x-forwarded-for": "198.51.100.7", "e2b-sandbox-id": "app--a" };
    const request = new Request("http://x/health", { headers: { ...forwarded, ...headers } });
    await check(request, { peerOf: () => peer }).catch(() => undefined);
  }
  assert.equal(seen, ["198.51.100.7", "198.51.100.7", "192.0.2.1"]);
});

function never(): never {
  throw new Error("it is not called");
}

test.run();
