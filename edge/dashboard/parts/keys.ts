import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { readStored, store } from "../stored.ts";
import type { KeyBinding } from "./key-matcher.ts";

/** All current bindings; of two with the same key the newer one wins. */
export const bindings = signal<readonly KeyBinding[]>([]);
/**
 * Whether keys without Control are enabled; https://www.w3.org/WAI/WCAG22/Understanding/character-key-shortcuts.html
 */
export const hasLetterKeys = signal(readStored("letters") !== "off");

export function letterKeys(areOn: boolean): void {
  hasLetterKeys.value = areOn;
  store("letters", areOn ? undefined : "off");
}

/** Binds a key while the component is mounted. */
export function useKey(keys: string, label: string, act: () => void): void {
  const latest = useRef(act);
  latest.current = act;
  // Plain effects run after the next frame: a key pressed before it would do nothing.
  useLayoutEffect(() => {
    const binding: KeyBinding = { keys, label, act: () => latest.current() };
    bindings.value = [...bindings.peek(), binding];
    return () => {
      bindings.value = bindings.peek().filter((one) => one !== binding);
    };
  }, [keys, label]);
}
