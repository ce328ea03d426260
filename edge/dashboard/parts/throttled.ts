import { useEffect, useRef, useState } from "preact/hooks";

/** A value that follows another one, at most once in so many milliseconds, and to its last. */
export function useThrottled<T>(value: T, pauseMs: number): T {
  const [shown, setShown] = useState(value);
  const latest = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const followedAt = useRef(Number.NEGATIVE_INFINITY);
  latest.current = value;
  useEffect(() => {
    if (value === shown || timer.current !== undefined) return;
    const rest = pauseMs - (performance.now() - followedAt.current);
    timer.current = setTimeout(
      () => {
        timer.current = undefined;
        followedAt.current = performance.now();
        setShown(latest.current);
      },
      Math.max(0, rest),
    );
  }, [value, shown]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return shown;
}
