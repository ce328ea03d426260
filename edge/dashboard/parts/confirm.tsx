import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";

interface Question {
  /** Names the act and the object. */
  readonly title: string;
  /** What is lost by it. */
  readonly lost: ComponentChildren;
  /** What the button says. */
  readonly verb: string;
  /** What has to be typed first, for what cannot be undone. */
  readonly type?: string;
}

const asked = signal<(Question & { answer(isMeant: boolean): void }) | undefined>(undefined);

/** Asks before something is lost; resolves with whether it is meant. A question takes the place of one before it. */
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

/** Where the questions appear; the shell has it. */
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
              Type <code>{type}</code> to go on
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
          {/* The first that can be focused is what showModal() focuses, unless one says autofocus. */}
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
