import type { Outcome } from "../adapter.ts";
import type { WebhookAnswer } from "./deliveries.ts";

const MEDIA_TYPE = /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+ *(?:;[\t\x20-\x7e]*)?$/;
const encoder = new TextEncoder();

/** Maps the outcome of a delivery to the answer for its sender. */
export function answerOf(outcome: Outcome): WebhookAnswer {
  switch (outcome.kind) {
    case "answered": {
      const { status, contentType, body } = outcome.reply;
      if (!Number.isInteger(status) || status < 200 || status > 599) {
        return errorAnswer(502, "the container answered with a status that is none");
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
export function errorAnswer(status: number, message: string): WebhookAnswer {
  return { status, contentType: "application/json", body: encoder.encode(JSON.stringify({ error: message })) };
}

/** Statuses that have no body (https://fetch.spec.whatwg.org/#null-body-status). */
const BODYLESS = [204, 205, 304];

/**
 * Makes the response to a delivery: status, media type and body of the container's answer, and none of its headers.
 *
 * The container's bytes come from the edge's own origin, so no browser may run them or show them to a page. That no
 * browser may guess their type is set by the handler, for every answer of a webhook.
 */
export function respond(answer: WebhookAnswer): Response {
  const headers = {
    ...answer.headers,
    "content-type": answer.contentType,
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
  };
  const { status } = answer;
  return new Response(BODYLESS.includes(status) ? null : (answer.body as Uint8Array<ArrayBuffer>), { status, headers });
}
