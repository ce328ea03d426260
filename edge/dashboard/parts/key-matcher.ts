/** A key and what it does, for the help and the palette. */
export interface KeyBinding {
  /** Such as `j`, `Control+k`, or `g c` for one after the other; as `KeyboardEvent.key` has it. */
  readonly keys: string;
  readonly label: string;
  act(): void;
}

/** The part of a `KeyboardEvent` that is looked at. */
export interface KeyPress {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly timeStamp: number;
  /** Whether it comes from a key that is held down. */
  readonly repeat: boolean;
  /** Whether a field has the focus, where letters are text. */
  readonly isTyping: boolean;
}

const SEQUENCE_MS = 1500;

/** Returns a function that finds what a key press, with the one before it, is bound to. */
export function createKeyMatcher(): (press: KeyPress, all: readonly KeyBinding[]) => KeyBinding | undefined {
  let first: { key: string; at: number } | undefined;
  return (press, all) => {
    const before = first;
    first = undefined;
    if (press.altKey) return undefined;
    // The press that closed a dialog does not go back as well.
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
