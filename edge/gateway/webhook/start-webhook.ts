import { createHash, randomUUID } from "node:crypto";
import type { Span, Tracer } from "../../../crds/tracing/tracer.ts";
import { onAbort } from "../../../crds/waits.ts";
import { HttpError } from "../../http/http-error.ts";
import { endRequestSpan, startRequestSpan } from "../../http/request-span.ts";
import type { RequestContext } from "../../http/router.ts";
import type { AdapterContext, Outcome, StartAdapter } from "../adapter.ts";
import type { DeliverySink } from "../delivery-log.ts";
import type { GatewayMetrics } from "../gateway-metrics.ts";
import type { Deliveries, WebhookAnswer } from "./deliveries.ts";
import { checkSecret, type Delivery, receiveDelivery } from "./receive-delivery.ts";
import type { UnverifiedBodies } from "./unverified-bodies.ts";
import type { WebhookPaths } from "./webhook-paths.ts";

/** Shared by all webhooks. */
export interface WebhookServices {
  readonly paths: WebhookPaths;
  readonly deliveries: Deliveries;
  readonly bodies: UnverifiedBodies;
  readonly metrics: Pick<GatewayMetrics, "count">;
  readonly deliveryLog: DeliverySink;
  /** @default no tracing */
  readonly tracer?: Tracer | undefined;
  /** Whether a webhook without a secret answers only this machine. */
  readonly localOnly: boolean;
  /** Open deliveries per webhook, in flight and waiting; more are answered 503. Only verified ones count. */
  readonly maxOpen: number;
  /** Open deliveries of all webhooks. */
  readonly maxOpenInAll: number;
  /** Aborted when everything in flight must end. */
  readonly hardStop: AbortSignal;
}

/**
 * Makes the adapter of webhook triggers: POST on the configured path, on every replica.
 *
 * An accepted delivery runs to its end, even if its sender disconnects or the trigger is edited.
 */
export function createWebhookStart(services: WebhookServices): StartAdapter {
  let openInAll = 0;
  return async (context) => {
    let open = 0;
    const { trigger, signal } = context;
    const { path, secretRef } = trigger.spec.config;
    if (path === undefined) throw new Error("spec.config.path: required for a webhook trigger");
    const answering = new Set<Promise<Response>>();
    if (secretRef !== undefined) await context.readSecret(secretRef, { onChange: () => void checkSecret(context) });
    signal.throwIfAborted();
    const unregister = services.paths.register(path, async (request, requestContext) => {
      if (request.method !== "POST")
        throw new HttpError(405, "a webhook takes POST only", { headers: { allow: "POST" } });
      const answered = answer(request, requestContext);
      answering.add(answered);
      try {
        return await answered;
      } finally {
        answering.delete(answered);
      }
    });
    return {
      done: new Promise((resolve) => {
        onAbort(signal, () => {
          unregister();
          void Promise.allSettled(answering).then(() => resolve());
        });
      }),
    };

    async function answer(request: Request, { mayBeSilent }: RequestContext): Promise<Response> {
      let delivery: Delivery;
      const arrivedAt = context.clock.now();
      // Without a secret anyone can send a delivery, and would choose its trace. A refused delivery leaves no span.
      const isTrusted = secretRef !== undefined;
      const span = services.tracer && startRequestSpan(request, services.tracer, { isTrusted });
      try {
        delivery = await receiveDelivery(request, context, services);
        if (open >= services.maxOpen || openInAll >= services.maxOpenInAll) throw tooMany();
      } catch (error) {
        const status = error instanceof HttpError ? error.status : 500;
        const result = status === 401 ? "unsigned" : "rejected";
        services.metrics.count("webhook", result);
        const reason = refusals[status] ?? "it could not be read";
        // Not the sender's id, which a stranger chooses.
        const id = `${trigger.metadata.name}-${randomUUID()}`;
        services.deliveryLog.add(trigger, { id, ...times(arrivedAt, context), result, status, reason });
        throw error;
      }
      mayBeSilent?.();
      open += 1;
      openInAll += 1;
      try {
        const response = await answerDelivery(delivery, { context, services, span });
        // A secret path may be the only protection from strangers.
        if (span !== undefined) endRequestSpan(span, { method: "POST", route: undefined, status: response.status });
        return response;
      } catch (error) {
        span?.end({ error });
        throw error;
      } finally {
        open -= 1;
        openInAll -= 1;
      }
    }
  };
}

/** Why a delivery was not run, by response status; the response itself may repeat a header of the request. */
const refusals: Readonly<Record<number, string>> = {
  400: "not a valid delivery: it must be JSON or a form",
  401: "its signature is missing or wrong",
  403: "a page of another site sent it",
  408: "its body did not arrive in time",
  413: "its body is too large",
  503: "too many deliveries at once, or the webhook's secret cannot be read",
};

function times(arrivedAt: number, { clock }: Pick<AdapterContext, "clock">): { at: string; ms: number } {
  return { at: new Date(arrivedAt).toISOString(), ms: Math.max(0, clock.now() - arrivedAt) };
}

function tooMany(): HttpError {
  return new HttpError(503, "too many deliveries at once; try again later", { headers: { "retry-after": "5" } });
}

async function answerDelivery(
  { data, body, sent }: Delivery,
  on: { context: AdapterContext; services: WebhookServices; span: Span | undefined },
): Promise<Response> {
  const { context, services, span } = on;
  const { metrics, deliveries, deliveryLog } = services;
  const { metadata } = context.trigger;
  const arrivedAt = context.clock.now();
  const id = `${metadata.name}-${sent ?? randomUUID()}`;
  const run = (): Promise<WebhookAnswer> => runDelivery({ id, data, span }, context, services);
  if (sent === undefined) return respond(await run());
  const key = createHash("sha256").update(`${metadata.uid}\n${sent}\n`).update(body).digest("base64");
  const { answer, repeated } = await deliveries.once(key, run);
  if (repeated) {
    metrics.count("webhook", "repeated");
    const { status } = answer;
    deliveryLog.add(context.trigger, { id, ...times(arrivedAt, context), result: "repeated", status });
  }
  return respond(answer);
}

async function runDelivery(
  { id, data, span }: { id: string; data: unknown; span: Span | undefined },
  { clock, run }: AdapterContext,
  { hardStop }: WebhookServices,
): Promise<WebhookAnswer> {
  const receivedAt = new Date(clock.now()).toISOString();
  try {
    return answerOf(await run({ id, fields: data, data, receivedAt }, { signal: hardStop, span }));
  } catch (error) {
    if (!hardStop.aborted) throw error;
    return { ...errorAnswer(503, "the server is stopping; try again"), headers: { "retry-after": "1" } };
  }
}

const MEDIA_TYPE = /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+ *(?:;[\t\x20-\x7e]*)?$/;
const encoder = new TextEncoder();

/** Converts the outcome of a delivery to the response for its sender. */
export function answerOf(outcome: Outcome): WebhookAnswer {
  switch (outcome.kind) {
    case "answered": {
      const { status, contentType, body } = outcome.reply;
      if (!Number.isInteger(status) || status < 200 || status > 599) {
        return errorAnswer(502, "the container answered with an invalid status");
      }
      return { status, contentType: MEDIA_TYPE.test(contentType) ? contentType : "application/octet-stream", body };
    }
    case "denied":
      return errorAnswer(403, outcome.message);
    case "refused":
      return errorAnswer(400, outcome.message);
    case "failed": {
      const status = outcome.status ?? 503;
      const mayPass = status === 429 || status === 503;
      return { ...errorAnswer(status, outcome.message), ...(mayPass && { headers: { "retry-after": "5" } }) };
    }
    default:
      return outcome satisfies never;
  }
}

/** An answer of `{error}`. */
function errorAnswer(status: number, message: string): WebhookAnswer {
  return { status, contentType: "application/json", body: encoder.encode(JSON.stringify({ error: message })) };
}

/** Statuses that have no body (https://fetch.spec.whatwg.org/#null-body-status). */
const BODYLESS = [204, 205, 304];

/**
 * Makes the response to a delivery: status, media type and body of the container's answer, and none of its headers.
 *
 * For every webhook response, the handler ensures that browsers do not run it, show it to a page or guess its type.
 */
export function respond(answer: WebhookAnswer): Response {
  const headers = { ...answer.headers, "content-type": answer.contentType, "cache-control": "no-store" };
  const { status } = answer;
  return new Response(BODYLESS.includes(status) ? null : (answer.body as Uint8Array<ArrayBuffer>), { status, headers });
}
