import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { Problem } from "../parts/problem.tsx";
import { shellWords } from "./shell-words.ts";

export function Exec({ instance }: { instance: string }) {
  const [line, setLine] = useState("");
  const [isShell, setShell] = useState(true);
  const [ran, setRan] = useState<{ argv: string[]; outcome?: ApiTypes["ExecOutcome"]; error?: Error }>();
  const [running, setRunning] = useState<AbortController>();
  // Cancels a command when its page is left.
  const latest = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => latest.current?.abort(), [instance]);
  const split = isShell ? { words: ["sh", "-c", line] } : shellWords(line);
  const isEmpty = line.trim() === "";
  const problem = "problem" in split && !isEmpty ? split.problem : undefined;

  return (
    <section aria-labelledby="exec">
      <h2 id="exec">Run a command</h2>
      <form class="filter" onSubmit={(event) => void run(event)}>
        <input
          aria-label="Command"
          aria-invalid={problem !== undefined}
          aria-describedby="argv"
          class="mono wide"
          value={line}
          spellcheck={false}
          autocomplete="off"
          placeholder={isShell ? "ls -l | head" : 'ls -l "a file"'}
          onInput={(event) => setLine(event.currentTarget.value)}
        />
        <label>
          <input type="checkbox" checked={isShell} onChange={(event) => setShell(event.currentTarget.checked)} /> by sh
          -c
        </label>
        <button type="submit" class="primary" aria-disabled={isEmpty || running !== undefined}>
          {running === undefined ? "Run" : "Run …"}
        </button>
        {running !== undefined && (
          <button type="button" onClick={() => running.abort()}>
            Cancel
          </button>
        )}
      </form>
      <p id="argv" class="muted">
        {problem ??
          (isEmpty || "problem" in split ? (
            "It counts as use of the instance."
          ) : (
            <code>{JSON.stringify(split.words)}</code>
          ))}
      </p>
      <div role="status">
        {ran?.outcome !== undefined && <Printed argv={ran.argv} outcome={ran.outcome} />}
        <Problem error={ran?.error} />
      </div>
    </section>
  );

  async function run(event: Event): Promise<void> {
    event.preventDefault();
    if (latest.current !== undefined || isEmpty || "problem" in split) return;
    const aborted = new AbortController();
    latest.current = aborted;
    setRunning(aborted);
    const argv = split.words;
    try {
      const path = `/instances/${encodeURIComponent(instance)}/exec`;
      const { signal } = aborted;
      const outcome = await call<ApiTypes["ExecOutcome"]>("POST", path, { body: { command: argv }, signal });
      setRan({ argv, outcome });
    } catch (error) {
      setRan(aborted.signal.aborted ? undefined : { argv, error: error as Error });
    } finally {
      latest.current = undefined;
      setRunning(undefined);
    }
  }
}

function Printed({ argv, outcome }: { argv: string[]; outcome: ApiTypes["ExecOutcome"] }) {
  const { stdout, stderr, exitCode, truncated } = outcome;
  return (
    <>
      <p class={exitCode === 0 ? "" : "is-bad"}>
        <code>{argv.at(-1)}</code> exited with code {exitCode}
        {truncated === true && "; output was truncated"}
      </p>
      {stdout !== "" && <Output of={stdout} label="Output" />}
      {stderr !== "" && <Output of={stderr} label="Errors" />}
    </>
  );
}

/** A text field can be scrolled and copied from with the keyboard. */
function Output({ of, label }: { of: string; label: string }) {
  const rows = Math.min(20, of.trimEnd().split("\n").length);
  return <textarea class="printed" readOnly spellcheck={false} aria-label={label} rows={rows} value={of} />;
}
