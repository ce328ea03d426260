/** Asks before a page with unsaved input is left. */
export interface LeaveGuard {
  /**
   * Registers `ask`, which resolves to whether the page may be left, or returns undefined if nothing would be lost.
   * Returns a function that removes it.
   */
  set(ask: () => Promise<boolean> | undefined): () => void;
  /** Calls `go` at once if nothing would be lost, otherwise after confirmation. */
  leave(go: () => void): void;
}

export function createLeaveGuard(): LeaveGuard {
  let ask: () => Promise<boolean> | undefined = () => undefined;
  return {
    set(next) {
      ask = next;
      return () => {
        if (ask === next) ask = () => undefined;
      };
    },
    leave(go) {
      const answer = ask();
      if (answer === undefined) go();
      else void answer.then((isMeant) => isMeant && go());
    },
  };
}
