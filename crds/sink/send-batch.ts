import { createHash, createHmac } from "node:crypto";
import type { SinkConfig } from "./sink-config.ts";

const SEND_LIMIT_MS = 30_000;
const MOST_SHOWN = 200;
const MOST_RETRY_AFTER_S = 600;
/** The content is wrong, and would be wrong again. */
const REFUSALS = new Set([400, 413, 415, 422]);

/** The sink did not take a batch. */
export class SinkError extends Error {
  /** Whether it would refuse the same events again. */
  readonly isRefusal: boolean;
  /** What it asked for. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { isRefusal: boolean; retryAfterMs: number | undefined }) {
    super(message);
    this.isRefusal = options.isRefusal;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/**
 * Sends events in one request, as a list in JSON, or as one event if that is the limit of a batch:
 * https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
 *
 * Signed as a Standard Webhook: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 *
 * @param lines CloudEvents in JSON
 * @throws SinkError if the sink answers with an error; an error of `fetch` if it does not answer
 */
export async function sendBatch(
  lines: readonly string[],
  { config, signal, now }: { config: SinkConfig; signal: AbortSignal; now: number },
): Promise<void> {
  const { url, secrets, token, batch } = config;
  const isOne = batch === 1;
  const body = isOne ? (lines[0] ?? "") : `[${lines.join(",")}]`;
  const type = isOne ? "application/cloudevents+json" : "application/cloudevents-batch+json";
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": `${type}; charset=utf-8`,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(secrets.length > 0 && signatureOf(body, { secrets, seconds: Math.floor(now / 1000) })),
    },
    body,
    // The answer cannot send events to another address than the configured one.
    redirect: "manual",
    signal: AbortSignal.any([signal, AbortSignal.timeout(SEND_LIMIT_MS)]),
  });
  if (response.ok) {
    await response.body?.cancel();
    return;
  }
  const { status, headers } = response;
  const text = await beginning(response);
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  throw new SinkError(`the sink answers ${status}${text === "" ? "" : `: ${JSON.stringify(text)}`}`, {
    isRefusal: REFUSALS.has(status),
    retryAfterMs: seconds > 0 ? Math.min(seconds, MOST_RETRY_AFTER_S) * 1000 : undefined,
  });
}

function signatureOf(
  body: string,
  { secrets, seconds }: { secrets: readonly Buffer[]; seconds: number },
): Record<string, string> {
  // The same events have the same id.
  const id = `msg_${createHash("sha256").update(body).digest("hex").slice(0, 32)}`;
  const signatures = secrets.map(
    (secret) => `v1,${createHmac("sha256", secret).update(`${id}.${seconds}.${body}`).digest("base64")}`,
  );
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": signatures.join(" "),
  };
}

/** The beginning of the sink's words. */
async function beginning(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  while (text.length < MOST_SHOWN) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text.slice(0, MOST_SHOWN);
}
