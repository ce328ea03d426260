import { useLayoutEffect, useRef } from "preact/hooks";
import type { FeedState } from "../api/feed.ts";

/** Shown in place of an object that does not exist; after a deletion a screen reader continues here. */
export function Gone({ noun, path, state }: { noun: string; path: string; state: FeedState }) {
  const line = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => {
    if (state !== "loading" && document.activeElement === document.body) line.current?.focus();
  }, [state]);
  return (
    <p class="muted" tabIndex={-1} ref={line}>
      {state === "loading" ? (
        "Loading…"
      ) : (
        <>
          This {noun} does not exist. <a href={`/dashboard${path}`}>All {noun}s</a>
        </>
      )}
    </p>
  );
}
