import type { WebhookAnswer } from "./deliveries.ts";

/** Statuses that have no body (https://fetch.spec.whatwg.org/#null-body-status). */
const BODYLESS = [204, 205, 304];

/**
 * Makes the response to a delivery: of the container's answer its status, media type and body, and no header.
 *
 * The container's bytes come from the edge's own origin, so no browser may run them, or give them to a page; nor guess their type, which
 * the handler forbids for every answer of a webhook.
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
