import { useState } from "preact/hooks";
import { CallError, isLoginAsked } from "../api/call.ts";
import { retryFeed } from "../api/kinds.ts";
import { logIn, session } from "../api/session.ts";
import { Dialog } from "../parts/dialog.tsx";

/** Asks for the key on top of the page, so that typed input is kept. */
export function Login() {
  return isLoginAsked.value ? <KeyForm /> : null;
}

function KeyForm() {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const provider = session.value?.provider;

  async function submit(form: HTMLFormElement): Promise<void> {
    const field = form.elements.namedItem("key") as HTMLInputElement;
    const key = field.value;
    // The key stays nowhere in the page, not even during the call.
    field.value = "";
    setBusy(true);
    try {
      await logIn(key);
      retryFeed();
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      setProblem(error.message);
      setBusy(false);
      field.focus();
    }
  }

  return (
    <Dialog title="Log in to tenancy" class="login">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy) void submit(event.currentTarget);
        }}
      >
        {/* Password managers store a password with a user name, and Chromium warns about a form without one. */}
        <input name="user" autocomplete="username" value="tenancy" readOnly hidden />
        <label>
          <span>API key</span>
          <input
            name="key"
            type="password"
            autocomplete="current-password"
            required
            aria-describedby="key-problem"
            aria-invalid={problem !== ""}
          />
        </label>
        <p id="key-problem" role="alert">
          {problem}
        </p>
        <div class="acts">
          <button type="submit" class="primary" aria-disabled={isBusy}>
            Log in
          </button>
          {provider !== undefined && (
            <button type="button" onClick={() => location.assign(`/api/v1/session/oidc?to=${here()}`)}>
              Sign in with {provider}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

/** The page to continue on. */
function here(): string {
  return encodeURIComponent(location.pathname + location.search);
}
