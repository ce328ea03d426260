/** A key binding, for the help and the palette. */
export interface KeyBinding {
  /** Such as `j`, `Control+k`, or `g c` for two keys in sequence; names as in `KeyboardEvent.key`. */
  readonly keys: string;
  readonly label: string;
  act(): void;
}

/** The part of a `KeyboardEvent` that is used. */
export interface KeyPress {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly timeStamp: number;
  /** Whether the key is held down. */
  readonly repeat: boolean;
  /** Whether a field has the focus, so that letters are text. */
  readonly isTyping: boolean;
}

const SEQUENCE_MS = 1500;

/** Returns a function that finds the binding of a key press, given the press before it. */
export function createKeyMatcher(): (press: KeyPress, all: readonly KeyBinding[]) => KeyBinding | undefined {
  let first: { key: string; at: number } | undefined;
  return (press, all) => {
    const before = first;
    first = undefined;
    if (press.altKey) return undefined;
    // The Escape press that closed a dialog must not also go back.
    if (press.repeat && press.key === "Escape") return undefined;
    const isControl = press.ctrlKey || press.metaKey;
    if (press.isTyping && !isControl) return undefined;
    const name = isControl ? `Control+${press.key.toLowerCase()}` : press.key;
    const find = (keys: string): KeyBinding | undefined => all.findLast((binding) => binding.keys === keys);
    if (before !== undefined && press.timeStamp - before.at <= SEQUENCE_MS) {
      const found = find(`${before.key} ${name}`);
      if (found !== undefined) return found;
    }
    const found = find(name);
    if (found === undefined && !isControl) first = { key: name, at: press.timeStamp };
    return found;
  };
}
