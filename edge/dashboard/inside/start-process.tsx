import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { shellWords } from "../instances/shell-words.ts";
import type { Acts } from "../parts/acts.tsx";
import { commandWords, type Process } from "./process-words.ts";

/** Starts a process in the background. */
export function StartProcess(props: { path: string; acts: Acts; onStarted(process: Process): void }) {
  const { path, acts, onStarted } = props;
  const [line, setLine] = useState("");
  const [isShell, setShell] = useState(true);
  const split = isShell ? { words: ["sh", "-c", line] } : shellWords(line);
  const isEmpty = line.trim() === "";
  const problem = "problem" in split && !isEmpty ? split.problem : undefined;
  return (
    <section aria-labelledby="start">
      <h2 id="start">Start a process</h2>
      <form
        class="filter"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isEmpty && "words" in split) acts.run("Start", () => start(split.words));
        }}
      >
        <input
          {...{ class: "mono wide", value: line, spellcheck: false, autocomplete: "off" }}
          aria-label="Command"
          aria-invalid={problem !== undefined}
          aria-describedby="argv"
          placeholder={isShell ? "make > build.log 2>&1" : 'worker --name "a name"'}
          onInput={(event) => setLine(event.currentTarget.value)}
        />
        <label>
          <input type="checkbox" checked={isShell} onChange={(event) => setShell(event.currentTarget.checked)} /> by sh
          -c
        </label>
        <button
          type="submit"
          class="primary"
          aria-disabled={isEmpty || problem !== undefined || acts.busy !== undefined}
        >
          {acts.busy === "Start" ? "Start …" : "Start"}
        </button>
      </form>
      <p id="argv" class="muted">
        {problem ??
          (isEmpty || "problem" in split ? (
            "It runs in the background until it ends or the instance is released."
          ) : (
            <code>{JSON.stringify(split.words)}</code>
          ))}
      </p>
    </section>
  );

  async function start(command: readonly string[]): Promise<string> {
    const process = await call<Process>("POST", path, { body: { command, background: true } });
    setLine("");
    onStarted(process);
    return `Process ${process.pid} was started: ${commandWords(command).slice(0, 200)}`;
  }
}
