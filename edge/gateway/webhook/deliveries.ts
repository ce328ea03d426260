import { createHash } from "node:crypto";
import type { Clock } from "../../../crds/client/clock.ts";

/** The response to a webhook's sender. */
export interface WebhookAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Responses to deliveries that may be repeated. */
export interface Deliveries {
  /**
   * Runs a delivery, unless one with the same key is in flight or was answered: then returns its answer.
   *
   * @param key identifies the delivery
   * @returns the answer, and whether it belongs to an earlier delivery
   */
  once(key: string, run: () => Promise<WebhookAnswer>): Promise<{ answer: WebhookAnswer; repeated: boolean }>;
  /** Bytes of the stored answers. */
  readonly bytes: number;
}

interface Kept {
  readonly answer: WebhookAnswer;
  readonly bytes: number;
  readonly until: number;
}

/** Memory of an entry in addition to its body. */
const OVERHEAD_BYTES = 512;

/**
 * Stores answers of deliveries, limited in bytes, count and age; the oldest are dropped first. Failures (429, 5xx) are
 * not stored: senders repeat such deliveries to have them run again.
 */
export function createDeliveries(options: {
  clock: Clock;
  /** @default 16 MiB */
  maxBytes?: number;
  /** @default 8192 */
  maxCount?: number;
  /** @default one hour */
  maxAgeMs?: number;
}): Deliveries {
  const { clock, maxBytes = 16 * 1024 * 1024, maxCount = 8192, maxAgeMs = 3_600_000 } = options;
  const inFlight = new Map<string, Promise<WebhookAnswer>>();
  // In the order of the answers.
  const kept = new Map<string, Kept>();
  let bytes = 0;

  function drop(key: string, { bytes: size }: Kept): void {
    kept.delete(key);
    bytes -= size;
  }

  function keep(key: string, answer: WebhookAnswer): void {
    const size = OVERHEAD_BYTES + answer.body.byteLength;
    if (answer.status === 429 || answer.status >= 500 || size > maxBytes) return;
    kept.set(key, { answer, bytes: size, until: clock.now() + maxAgeMs });
    bytes += size;
    for (const [oldest, entry] of kept) {
      if (bytes <= maxBytes && kept.size <= maxCount && entry.until > clock.now()) break;
      drop(oldest, entry);
    }
  }

  return {
    async once(key, run) {
      const before = kept.get(key);
      if (before !== undefined && before.until > clock.now()) return { answer: before.answer, repeated: true };
      if (before !== undefined) drop(key, before);
      const running = inFlight.get(key);
      if (running !== undefined) return { answer: await running, repeated: true };
      const started = run();
      inFlight.set(key, started);
      try {
        const answer = await started;
        keep(key, answer);
        return { answer, repeated: false };
      } finally {
        inFlight.delete(key);
      }
    },
    get bytes() {
      return bytes;
    },
  };
}

/**
 * Headers that identify a delivery, the same for each repetition: GitHub, Gitea, Gogs, GitLab, Bitbucket, Shopify,
 * Standard Webhooks, CloudEvents, and the IETF's Idempotency-Key.
 */
const HEADERS = [
  "x-github-delivery",
  "x-gitea-delivery",
  "x-gogs-delivery",
  "x-gitlab-event-uuid",
  "x-request-uuid",
  "x-shopify-webhook-id",
  "webhook-id",
  "ce-id",
  "idempotency-key",
];

const PLAIN = /^[\w.:-]{1,128}$/;

/** The sender's id of a delivery, as one word; undefined if it sends none. */
export function deliveryId(headers: Headers): string | undefined {
  for (const header of HEADERS) {
    const id = headers.get(header);
    if (id) return PLAIN.test(id) ? id : createHash("sha256").update(id).digest("hex");
  }
  return undefined;
}
