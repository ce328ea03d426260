import { useState } from "preact/hooks";
import { Dialog } from "../parts/dialog.tsx";

/** A question for a name. It stays open, with the error, until `act` succeeds. */
export interface NameQuestion {
  readonly title: string;
  readonly label: string;
  readonly initial: string;
  readonly verb: string;
  act(name: string): Promise<void>;
}

export function NameDialog({ of, close }: { of: NameQuestion; close(): void }) {
  const { title, label, initial, verb, act } = of;
  const [name, setName] = useState(initial);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  return (
    <Dialog title={title} onCancel={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy && name !== "") void submit();
        }}
      >
        <label>
          <span>{label}</span>
          <input
            {...{ value: name, autofocus: true, autocomplete: "off", spellcheck: false }}
            onFocus={(event) => event.currentTarget.select()}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        {error !== undefined && <p role="alert">{error.message}</p>}
        <div class="acts">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary" aria-disabled={isBusy || name === ""}>
            {isBusy ? `${verb} …` : verb}
          </button>
        </div>
      </form>
    </Dialog>
  );

  async function submit(): Promise<void> {
    setBusy(true);
    try {
      if (name !== initial) await act(name);
      close();
    } catch (problem) {
      setError(problem as Error);
      setBusy(false);
    }
  }
}
