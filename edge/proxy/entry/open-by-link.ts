import type { Clock } from "../../../crds/client/clock.ts";
import type { LinkTokens, SignedGrant } from "./link-token.ts";

/** How long a connection may stay open after its link has become invalid. */
const LOOK_MS = 1000;

interface Open {
  readonly grant: SignedGrant;
  readonly stop: () => void;
}

/** Ends what links opened, such as WebSockets, when these links are no longer valid. */
export function createOpenByLink({
  tokens,
  clock,
}: {
  tokens: Pick<LinkTokens, "holds">;
  clock: Pick<Clock, "after">;
}): {
  /** @returns a function that removes it, when it has ended by itself */
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
