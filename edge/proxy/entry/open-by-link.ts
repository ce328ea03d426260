import type { Clock } from "../../../crds/client/clock.ts";
import type { LinkTokens, SignedGrant } from "./link-token.ts";

/** How long something may stay open after the link that it came in by. */
const LOOK_MS = 5000;

interface Open {
  readonly grant: SignedGrant;
  readonly stop: () => void;
}

/** Ends what was opened by links, such as WebSockets, when these no longer let anybody in. */
export function createOpenByLink({
  tokens,
  clock,
}: {
  tokens: Pick<LinkTokens, "holds">;
  clock: Pick<Clock, "after">;
}): {
  /** @returns what forgets it, when it is over by itself */
  add(grant: SignedGrant, stop: () => void): () => void;
} {
  const all = new Set<Open>();
  let cancel: (() => void) | undefined;

  function lookLater(): void {
    cancel = clock.after(LOOK_MS, () => {
      for (const { grant, stop } of all) if (!tokens.holds(grant)) stop();
      if (all.size > 0) lookLater();
    });
  }

  return {
    add(grant, stop) {
      const open = { grant, stop };
      all.add(open);
      if (all.size === 1) lookLater();
      return () => {
        all.delete(open);
        if (all.size === 0) cancel?.();
      };
    },
  };
}
