import type { Claim } from "../../../crds/claim.ts";
import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import { startDeadline } from "../../../crds/waits.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ClaimServices } from "./claim-services.ts";

/**
 * Waits until the claims of a key are as a call wants them.
 *
 * @param options.look called with all claims of the key that the watch has shown, at first and after each change;
 *   undefined to wait on
 * @param options.late what the 504 says
 * @throws HttpError 504 after the limit, 499 if the client went away; what `look` throws
 */
export async function waitForClaims<T>(
  key: ClaimKey,
  { cache, waiters, clock, waitLimitMs }: Pick<ClaimServices, "cache" | "waiters" | "clock" | "waitLimitMs">,
  options: { look: (claims: readonly Claim[]) => T | undefined; late: string; clientGone: AbortSignal | undefined },
): Promise<T> {
  const { look, late, clientGone } = options;
  const deadline = startDeadline(waitLimitMs, clock);
  try {
    for (;;) {
      const found = look([...cache.claims.store.by("key", claimKey(key))]);
      if (found !== undefined) return found;
      if (clientGone?.aborted) throw new HttpError(499, "the client went away");
      if (deadline.signal.aborted) {
        requireFresh(cache.claims);
        throw new HttpError(504, late, { expected: true });
      }
      await waiters.next(key, [deadline.signal, clientGone]);
    }
  } finally {
    deadline.close();
  }
}
