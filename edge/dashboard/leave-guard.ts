/** Asks before a page with unsaved input is left. */
export interface LeaveGuard {
  /**
   * Registers `ask`, which resolves to whether the page may be left, or returns undefined if nothing would be lost. It
   * gets the next address, if that is known. Returns a function that removes it.
   */
  set(ask: (to: URL | undefined) => Promise<boolean> | undefined): () => void;
  /** Calls `go` at once if nothing would be lost, otherwise after confirmation. */
  leave(go: () => void, to?: URL): void;
}

export function createLeaveGuard(): LeaveGuard {
  let ask: (to: URL | undefined) => Promise<boolean> | undefined = () => undefined;
  return {
    set(next) {
      ask = next;
      return () => {
        if (ask === next) ask = () => undefined;
      };
    },
    leave(go, to) {
      const answer = ask(to);
      if (answer === undefined) go();
      else void answer.then((isMeant) => isMeant && go());
    },
  };
}
