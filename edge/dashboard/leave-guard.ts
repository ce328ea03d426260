/** Asks before a page is left that holds what is saved nowhere. */
export interface LeaveGuard {
  /**
   * Has `ask` resolve with whether the page may be left; undefined where nothing would be lost. The function it returns
   * ends that.
   */
  set(ask: () => Promise<boolean> | undefined): () => void;
  /** Goes at once where nothing would be lost, else when that is meant. */
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
