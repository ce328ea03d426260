import { createHash } from "node:crypto";

/**
 * Headers by which senders name a delivery, the same however often they send it: GitHub, Gitea, Gogs, GitLab, Bitbucket, Shopify, Standard
 * Webhooks, CloudEvents, and the IETF's Idempotency-Key.
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

/** The sender's own name of a delivery, as one word; undefined where it gives none. */
export function deliveryId(headers: Headers): string | undefined {
  for (const header of HEADERS) {
    const id = headers.get(header);
    if (id) return PLAIN.test(id) ? id : createHash("sha256").update(id).digest("hex");
  }
  return undefined;
}
