import { randomInt } from "node:crypto";

// Far above what images and distributions use, and below 2^31, which some tools take as signed.
const FIRST = 1_000_000_000;
const LAST = 2_000_000_000;

/** Stands for whatever user a pod's proxy has where templates are compared. */
export const TEMPLATE_PROXY_UID = FIRST;

/**
 * Picks the user of a pod's proxy, whose connections are not redirected. An image that ran as that user would go round the proxy, and
 * only the node learns an image's user; so each pod has another, which no image can name beforehand.
 */
export function pickProxyUid(): number {
  return randomInt(FIRST + 1, LAST);
}
