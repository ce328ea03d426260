import type { Clock } from "../../../crds/client/clock.ts";
import { HttpError } from "../../http/http-error.ts";
import { readBytes } from "../../http/read-bytes.ts";

/** Bodies of deliveries whose senders are not verified yet: any stranger can send them, as slowly as it likes. */
export interface UnverifiedBodies {
  /**
   * Reads a body.
   *
   * @param options.webhook the webhook of the delivery
   * @throws HttpError as {@link readBytes} does, and 503 if it was dropped in favour of others
   */
  read(request: Request, options: { webhook: string }): Promise<Uint8Array>;
  /** Number of bodies being read. */
  readonly reading: number;
}

interface Reader {
  bytes: number;
  readonly drop: () => void;
}

interface Senders {
  bytes: number;
  /** In order of arrival. */
  readonly readers: Set<Reader>;
}

/** What a body counts in addition to its bytes: for its connection, and to limit the number of bodies. */
const OVERHEAD_BYTES = 64 * 1024;

/**
 * Makes a reader of bodies that holds at most `maxBytes` at a time. Beyond that the oldest body of the webhook with the
 * most is dropped in favour of the new one: strangers displace each other's bodies, a sender without pauses gets
 * through, and strangers of one webhook do not affect the senders of another.
 *
 * @param options.maxBytes 64 KiB for each body, plus its received bytes; @default 64 MiB
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
  return new HttpError(503, "body: arrives too slowly while too many others are being received; try again later", {
    headers: { "retry-after": "5", connection: "close" },
  });
}
