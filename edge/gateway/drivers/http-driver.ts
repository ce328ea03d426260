import { NetworkError } from "../../../crds/client/api-error.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { webhookHeaders } from "../../../crds/standard-webhook.ts";
import { sleep, withTimeLimit } from "../../../crds/waits.ts";
import { createPoster, type JsonPostReply, type Post } from "../post-json.ts";
import {
  callUrl,
  type Driver,
  type DriverCall,
  DriverError,
  MAX_REPLY_BYTES,
  RETRY_MS,
  throwIfAborted,
  timeoutMs,
} from "./driver.ts";

/**
 * How long an idle connection is kept. Shorter than servers keep theirs (2 to 75 s): a request on a connection that the
 * server is closing is lost and, as a POST, must not be repeated.
 */
const KEEP_ALIVE_MS = 1000;

const utf8 = new TextDecoder();

/**
 * Posts the payload as JSON to the container. Every status is passed on as its reply, except redirects: a pod must not
 * direct the gateway elsewhere.
 *
 * @throws the signal's reason when it is aborted, from the returned driver
 */
export function createHttpDriver({ clock }: { clock: Clock }): Driver {
  const post = createPoster({ clock, keepAliveMs: KEEP_ALIVE_MS });
  return async (call) => {
    const limit = { what: "the container's answer", ms: timeoutMs(call), clock, signal: call.signal };
    try {
      return await withTimeLimit(limit, (signal) => postOnceMore(post, { call, clock, signal }));
    } catch (error) {
      throwIfAborted(call);
      throw driverError(error);
    }
  };
}

interface Attempt {
  readonly call: DriverCall;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

async function postOnceMore(post: Post, attempt: Attempt): ReturnType<Driver> {
  try {
    return await postPayload(post, attempt);
  } catch (error) {
    if (!(error instanceof NetworkError) || error.requestWasSent) throw error;
  }
  const { call, clock, signal } = attempt;
  try {
    await sleep(RETRY_MS, { clock, signal });
    await call.confirm();
  } catch (cause) {
    throw new DriverError(cause instanceof Error ? cause.message : String(cause), { nothingSent: true, cause });
  }
  return postPayload(post, attempt);
}

async function postPayload(post: Post, { call, clock, signal }: Attempt): ReturnType<Driver> {
  const { payload, signedWith } = call;
  const body = JSON.stringify(payload);
  const reply = await post({
    url: callUrl(call, { scheme: "http", path: "/" }),
    ...(signedWith && { headers: webhookHeaders(body, { id: payload.id, secrets: signedWith, now: clock.now() }) }),
    body,
    maxReplyBytes: MAX_REPLY_BYTES,
    checkStatus(status) {
      if (status < 200 || (status >= 300 && status < 400)) {
        throw new Error(`it answered with status ${status}, which cannot be passed on`);
      }
    },
    signal,
  });
  return driverReply(reply);
}

function driverReply({ status, headers, body }: JsonPostReply): Awaited<ReturnType<Driver>> {
  return {
    status,
    contentType: headers["content-type"] ?? "application/octet-stream",
    body,
    text: utf8.decode(body),
  };
}

function driverError(cause: unknown): DriverError {
  if (cause instanceof DriverError) return cause;
  const nothingSent = cause instanceof NetworkError && !cause.requestWasSent;
  return new DriverError(cause instanceof Error ? cause.message : String(cause), { nothingSent, cause });
}
