import { effect, untracked } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

/**
 * A value that `read` computes from signals, updated at most once in `pauseMs`, so that the component does not render
 * at each change. A hidden page updates when it is shown again.
 *
 * @param of a new value reads immediately
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
      // Wrapped, since the value may be a function.
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
