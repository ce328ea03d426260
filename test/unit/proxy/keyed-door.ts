import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { root } from "../../../edge/access/actor.ts";
import { createKeyRates } from "../../../edge/access/key-rates.ts";
import { createKeyStore, withoutContent } from "../../../edge/access/key-store.ts";
import { createAccessTokens } from "../../../edge/e2b/access-token.ts";
import { newKey } from "../access/key-secrets.ts";
import { manualClock } from "../manual-clock.ts";
import { MemoryApi } from "../memory-api.ts";
import { memoryInformer } from "../memory-informer.ts";
import { silentLog } from "../silent-log.ts";
import { startDoor } from "./front-door.ts";

/** A pod's answer to a handshake. */
export const SWITCH = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
/** The lines of one. */
export const handshake = [
  ...["Connection: Upgrade", "Upgrade: websocket"],
  ...["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"],
];

/** A front door with these keys, by the name in the test. */
export async function doorWith(
  given: Record<string, Parameters<typeof newKey>[0]>,
  more: Parameters<typeof startDoor>[0] = {},
) {
  const api = new MemoryApi("keys");
  const informer = memoryInformer(api, { resource: secrets, indexes: {}, transform: withoutContent });
  const endless = new Promise<void>(() => undefined);
  let isFresh = true;
  const clock = manualClock();
  const keys = createKeyStore({
    ...{ informer: { ...informer, done: endless }, isFresh: () => isFresh },
    ...{ namespace: "keys", clock, log: silentLog },
  });
  await Promise.resolve();
  const made = Object.entries(given).map(([name, record], at) => {
    const key = newKey(record);
    api.add(secrets, key.secretAt(at + 1));
    return [name, key] as const;
  });
  const signingKey = async () => Buffer.alloc(32, "s");
  const accessTokens = createAccessTokens({ signingKey, keys, clock });
  const readAccessToken = await accessTokens.reader();
  const door = await startDoor({ keys, readAccessToken, admit: createKeyRates({ clock }), ...more });
  return {
    door,
    clock,
    /** The access token that the API gives for a sandbox. */
    async token(name: string, sandbox: ClaimKey) {
      const actor = keys.actorOf(Object.fromEntries(made)[name]?.text ?? "");
      return accessTokens.sign(sandbox, actor ?? root);
    },
    key: Object.fromEntries(made.map(([name, { text }]) => [name, text])) as Record<string, string>,
    end: (name: string) => api.remove(secrets, `key-${Object.fromEntries(made)[name]?.id}`),
    outage() {
      isFresh = false;
    },
  };
}
