import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";

interface Question {
  /** Names the action and the object. */
  readonly title: string;
  /** What would be lost. */
  readonly lost: ComponentChildren;
  /** The button's label. */
  readonly verb: string;
  /** Text that must be typed first, for actions that cannot be undone. */
  readonly type?: string;
}

const asked = signal<(Question & { answer(isMeant: boolean): void }) | undefined>(undefined);

/** Asks for confirmation; resolves to the answer. A new question replaces an open one. */
export function confirm(question: Question): Promise<boolean> {
  asked.value?.answer(false);
  return new Promise((resolve) => {
    const mine = {
      ...question,
      answer(isMeant: boolean) {
        if (asked.peek() === mine) asked.value = undefined;
        resolve(isMeant);
      },
    };
    asked.value = mine;
  });
}

/** Renders the questions; part of the shell. */
export function Confirmation() {
  const question = asked.value;
  return question === undefined ? null : <Ask key={question.title} {...question} />;
}

function Ask({ title, lost, verb, type, answer }: Question & { answer(isMeant: boolean): void }) {
  const [typed, setTyped] = useState("");
  return (
    <Dialog title={title} class="confirm" onCancel={() => answer(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (type === undefined || typed === type) answer(true);
        }}
      >
        <div class="lost">{lost}</div>
        {type !== undefined && (
          <label>
            <span>
              Type <code>{type}</code> to confirm
            </span>
            <input
              value={typed}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        <div class="acts">
          {/* showModal() focuses the first focusable element, unless one has autofocus. */}
          <button type="button" autofocus onClick={() => answer(false)}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={type !== undefined && typed !== type}>
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
