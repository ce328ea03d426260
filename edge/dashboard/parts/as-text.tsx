import { useState } from "preact/hooks";
import { Command } from "./command.tsx";

/**
 * A folded part with texts to copy, of which one is shown.
 *
 * @param props.texts by label; undefined while one is not there yet
 */
export function AsText(props: {
  title: string;
  texts: Readonly<Record<string, string | undefined>>;
  onOpen?(): void;
  /** Below the text that is shown. */
  children?: preact.ComponentChildren;
}) {
  const { title, texts, onOpen, children } = props;
  const labels = Object.keys(texts);
  const [shown = "", setShown] = useState(labels[0]);
  const text = texts[shown];
  return (
    <details class="group" onToggle={(event) => event.currentTarget.open && onOpen?.()}>
      <summary>
        <b>{title}</b> <span class="muted">{labels.join(", ")}</span>
      </summary>
      <div class="acts">
        {labels.map((label) => (
          <button key={label} type="button" aria-pressed={shown === label} onClick={() => setShown(label)}>
            {label}
          </button>
        ))}
      </div>
      {text !== undefined && <Command line={text} />}
      {children}
    </details>
  );
}
