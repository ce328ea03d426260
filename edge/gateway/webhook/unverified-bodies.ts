import type { Clock } from "../../../crds/client/clock.ts";
import { HttpError } from "../../http/http-error.ts";
import { readBytes } from "../../http/read-bytes.ts";

/** Bodies of deliveries whose senders are not verified yet: any stranger can send them, and as slowly as it likes. */
export interface UnverifiedBodies {
  /**
   * Reads a body.
   *
   * @param options.webhook whose delivery it is
   * @throws HttpError as {@link readBytes} does, and 503 where it was dropped for others
   */
  read(request: Request, options: { webhook: string }): Promise<Uint8Array>;
  /** How many are being read. */
  readonly reading: number;
}

interface Reader {
  bytes: number;
  readonly drop: () => void;
}

interface Senders {
  bytes: number;
  /** In the order of their arrival. */
  readonly readers: Set<Reader>;
}

/** What a body counts beside its bytes: for its connection, and to limit how many there are. */
const OVERHEAD_BYTES = 64 * 1024;

/**
 * Makes a reader of bodies that holds at most `maxBytes` at a time. Beyond that the oldest body of the webhook that
 * holds the most is dropped, and the new one is read: strangers drop each other's bodies, a sender that sends without
 * pauses gets through, and strangers of one webhook do not affect the senders of another.
 *
 * @param options.maxBytes 64 KiB for each body, and what of it has arrived; @default 64 MiB
 */
export function createUnverifiedBodies(options: { clock: Clock; maxBytes?: number }): UnverifiedBodies {
  const { clock, maxBytes = 64 * 1024 * 1024 } = options;
  const webhooks = new Map<string, Senders>();
  let total = 0;

  function leave(webhook: string, reader: Reader): void {
    const senders = webhooks.get(webhook);
    if (!senders?.readers.delete(reader)) return;
    senders.bytes -= reader.bytes;
    total -= reader.bytes;
    if (senders.readers.size === 0) webhooks.delete(webhook);
  }

  function grow(webhook: string, reader: Reader, bytes: number): void {
    const senders = webhooks.get(webhook);
    if (!senders?.readers.has(reader)) return;
    reader.bytes += bytes;
    senders.bytes += bytes;
    total += bytes;
    while (total > maxBytes) dropOne();
  }

  function dropOne(): void {
    const [largest] = [...webhooks].sort(([, a], [, b]) => b.bytes - a.bytes);
    if (largest === undefined) return;
    const [webhook, { readers }] = largest;
    const [oldest] = readers;
    if (oldest === undefined) return;
    leave(webhook, oldest);
    oldest.drop();
  }

  return {
    async read(request, { webhook }) {
      const dropped = new AbortController();
      const reader: Reader = { bytes: 0, drop: () => dropped.abort(tooMany()) };
      const senders = webhooks.get(webhook) ?? { bytes: 0, readers: new Set() };
      webhooks.set(webhook, senders);
      senders.readers.add(reader);
      grow(webhook, reader, OVERHEAD_BYTES);
      try {
        const onBytes = (count: number): void => grow(webhook, reader, count);
        return await readBytes(request, { signal: dropped.signal, onBytes, clock });
      } finally {
        leave(webhook, reader);
      }
    },
    get reading() {
      let count = 0;
      for (const { readers } of webhooks.values()) count += readers.size;
      return count;
    },
  };
}

function tooMany(): HttpError {
  return new HttpError(503, "body: arrives too slowly while too many others arrive; try again later", {
    headers: { "retry-after": "5", connection: "close" },
  });
}
