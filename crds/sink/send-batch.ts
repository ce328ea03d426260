import { createHash } from "node:crypto";
import { systemClock } from "../client/clock.ts";
import { retryAfter } from "../client/transport.ts";
import { webhookHeaders } from "../standard-webhook.ts";
import type { SinkConfig } from "./sink-config.ts";

const SEND_LIMIT_MS = 30_000;
const MOST_SHOWN = 200;
const MOST_RETRY_AFTER_MS = 600_000;
const TOO_LARGE = 413;
/** The content is wrong, if the sink is right. */
const REFUSALS = new Set([400, TOO_LARGE, 415, 422]);

/** The sink did not take events. */
export class SinkError extends Error {
  override readonly name = "SinkError";
  /** Undefined if it did not answer. */
  readonly status: number | undefined;
  /** What it asked for, at most ten minutes. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, { status, retryAfterMs }: { status?: number; retryAfterMs?: number | undefined } = {}) {
    super(message);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }

  get isTooLarge(): boolean {
    return this.status === TOO_LARGE;
  }

  get isRefusal(): boolean {
    return this.status !== undefined && REFUSALS.has(this.status);
  }
}

/** The error without the address and the token, which may be secret. */
export function sinkErrorOf(error: unknown, { token }: Pick<SinkConfig, "token">): SinkError {
  if (!(error instanceof SinkError)) {
    const { name, code, cause } = error as { name?: string; code?: string; cause?: { code?: string } };
    return new SinkError(`the sink does not answer: ${cause?.code ?? code ?? name ?? "unknown"}`);
  }
  if (token === undefined) return error;
  const { status, retryAfterMs, message } = error;
  return new SinkError(message.replaceAll(token, "***"), { ...(status !== undefined && { status }), retryAfterMs });
}

/**
 * Sends events in one request, as a list in JSON, or as one event if that is the limit of a batch:
 * https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
 *
 * @param lines CloudEvents in JSON
 * @throws SinkError if the sink answers with an error; an error of `fetch` if it does not answer
 */
export async function sendBatch(
  lines: readonly string[],
  { config, signal }: { config: SinkConfig; signal: AbortSignal },
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
      ...(secrets.length > 0 && webhookHeaders(body, { id: idOf(body), secrets, now: systemClock.now() })),
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
  const words = text === "" ? "" : `: ${JSON.stringify(text)}`;
  const asked = retryAfter(headers.get("retry-after") ?? undefined, { now: systemClock.now() });
  throw new SinkError(`the sink answers ${status}${words}`, {
    status,
    // No time is the same as none that it asks for.
    retryAfterMs: asked ? Math.min(asked, MOST_RETRY_AFTER_MS) : undefined,
  });
}

/** The same events have the same id. */
function idOf(body: string): string {
  return `msg_${createHash("sha256").update(body).digest("hex").slice(0, 32)}`;
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
