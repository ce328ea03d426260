import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/**
 * Focuses an element when `part` of the page changes, since the link that was followed may be gone; not at first, when
 * screen readers read the page from its top.
 */
export function useFocusOn<T extends HTMLElement>(part: string): RefObject<T | null> {
  const element = useRef<T | null>(null);
  const before = useRef(part);
  useLayoutEffect(() => {
    if (before.current === part) return;
    before.current = part;
    element.current?.focus();
  }, [part]);
  return element;
}
