const keys: readonly (readonly [key: string, word: string, label: string])[] = [
  ["Escape", "Esc", "Esc"],
  ["Tab", "Tab", "Tab"],
  ["ArrowLeft", "←", "Left"],
  ["ArrowUp", "↑", "Up"],
  ["ArrowDown", "↓", "Down"],
  ["ArrowRight", "→", "Right"],
];

/** Keys that the keyboard of a phone does not have. */
export function TouchKeys(props: {
  isControlHeld: boolean;
  press(key: string): void;
  holdControl(isHeld: boolean): void;
}) {
  const { isControlHeld, press, holdControl } = props;
  return (
    // The focus stays in the terminal, so that the keyboard stays open.
    <div class="acts touch" onPointerDown={(event) => event.preventDefault()}>
      {keys.map(([key, word, label]) => (
        <button key={key} type="button" aria-label={label} onClick={() => press(key)}>
          {word}
        </button>
      ))}
      <button type="button" aria-pressed={isControlHeld} onClick={() => holdControl(!isControlHeld)}>
        Ctrl
      </button>
    </div>
  );
}
