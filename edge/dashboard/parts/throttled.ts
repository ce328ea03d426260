import { effect, untracked } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

/**
 * What `read` makes of signals, at most once in so many milliseconds, and of their last values: the component is not
 * drawn anew at each of their changes. A page that nobody sees follows when it is seen again.
 *
 * @param of another one is read anew
 */
export function useThrottled<T>(read: () => T, pauseMs: number, of?: unknown): T {
  const [shown, setShown] = useState(() => untracked(read));
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let followedAt = Number.NEGATIVE_INFINITY;
    let isDue = false;

    function follow(): void {
      timer = undefined;
      if (document.hidden || !isDue) return;
      isDue = false;
      followedAt = performance.now();
      // As a function, since what is read may be one.
      const next = untracked(read);
      setShown(() => next);
    }

    function schedule(): void {
      timer ??= setTimeout(follow, Math.max(0, pauseMs - (performance.now() - followedAt)));
    }

    const end = effect(() => {
      read();
      isDue = true;
      schedule();
    });
    document.addEventListener("visibilitychange", schedule);
    return () => {
      end();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", schedule);
    };
  }, [pauseMs, of]);
  return shown;
}
