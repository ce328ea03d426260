import { useLayoutEffect, useRef } from "preact/hooks";
import type { FeedState } from "../api/feed.ts";

/** Stands where an object was, or is not yet; a reader of the screen goes on here after it was deleted. */
export function Gone({ noun, path, state }: { noun: string; path: string; state: FeedState }) {
  const line = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => {
    if (state !== "loading" && document.activeElement === document.body) line.current?.focus();
  }, [state]);
  return (
    <p class="muted" tabIndex={-1} ref={line}>
      {state === "loading" ? (
        "Reading …"
      ) : (
        <>
          There is no such {noun}. <a href={`/dashboard${path}`}>All {noun}s</a>
        </>
      )}
    </p>
  );
}
