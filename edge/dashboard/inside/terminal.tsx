import { useEffect, useRef, useState } from "preact/hooks";
import { logins } from "../api/call.ts";
import { timers } from "../api/kinds.ts";
import { InstanceHead } from "../claims/tabs.tsx";
import { insideHref } from "../parts/hrefs.ts";
import { navigate, type PageParams, place } from "../route.ts";
import { rememberShell } from "./left-shells.ts";
import { createScreen, type Screen } from "./screen.ts";
import { connectShell, type ShellConnection, type ShellState } from "./shell-connection.ts";
import { shellSockets } from "./shell-socket.ts";
import { stateWords } from "./state-words.ts";
import { TouchKeys } from "./touch-keys.tsx";

export default function Terminal({ params }: { params: PageParams }) {
  const { name = "" } = params;
  const [round, setRound] = useState(0);
  return (
    <>
      <InstanceHead of={name} current="terminal" />
      <Shell
        key={round}
        instance={name}
        isFirst={round === 0}
        attachAgain={() => setRound(round + 1)}
        startAgain={() => {
          navigate(insideHref(name, "terminal"), { replace: true });
          setRound(round + 1);
        }}
      />
    </>
  );
}

/** The process that the address names; undefined for a new shell. */
function pidInAddress(): number | undefined {
  const pid = place.peek().searchParams.get("pid") ?? "";
  return /^[1-9]\d{0,6}$/.test(pid) ? Number(pid) : undefined;
}

function Shell(props: { instance: string; isFirst: boolean; attachAgain(): void; startAgain(): void }) {
  const { instance, isFirst, attachAgain, startAgain } = props;
  const box = useRef<HTMLDivElement>(null);
  const again = useRef<HTMLButtonElement>(null);
  const opened = useRef<{ screen: Screen; connection: ShellConnection } | undefined>(undefined);
  const [state, setState] = useState<ShellState>({ is: "connecting" });
  const [isControlHeld, setControlHeld] = useState(false);

  useEffect(() => {
    const screen = createScreen(box.current as HTMLDivElement, {
      onInput: (bytes) => connection.input(bytes),
      onResize: () => opened.current?.connection.resize(),
      onLeave: leave,
      onControlUsed: () => setControlHeld(false),
    });
    const { size } = screen;
    const connection = connectShell(pidInAddress(), {
      ...shellSockets(instance, { size }),
      size,
      clock: timers,
      onStart: ({ stdoutBytes }) => screen.begin(stdoutBytes),
      onOutput: screen.write,
      onState(next) {
        setState(next);
        screen.setEnabled(next.is === "open" || next.is === "behind");
        if (next.is === "open") {
          rememberShell(instance, next.pid);
          // A reload, and Back, attach to the same shell.
          navigate(insideHref(instance, "terminal", { pid: String(next.pid) }), { replace: true });
        } else if (next.is === "ended" || next.is === "failed") {
          rememberShell(instance, undefined);
          if (screen.hasFocus()) again.current?.focus();
        }
      },
    });
    opened.current = { screen, connection };
    // A page gets the focus on its heading first, as all do; a new shell was asked for.
    if (!isFirst) screen.focus();
    const retry = (): void => connection.retry();
    addEventListener("online", retry);
    const endLogins = logins.subscribe(retry);
    return () => {
      removeEventListener("online", retry);
      endLogins();
      opened.current = undefined;
      connection.close();
      screen.dispose();
    };
  }, [instance]);

  function leave(): void {
    document.querySelector("h1")?.focus();
  }

  return (
    <section class="shell" aria-label="Terminal">
      <div class="acts">
        <button type="button" ref={again} onClick={startAgain}>
          New shell
        </button>
        <p role="status" class={state.is === "failed" || state.is === "lost" ? "is-bad" : "muted"}>
          {stateWords(state)}
        </p>
        {state.is === "failed" && pidInAddress() !== undefined && (
          <button type="button" onClick={attachAgain}>
            Attach again
          </button>
        )}
      </div>
      <div class="screen" ref={box} />
      <TouchKeys
        isControlHeld={isControlHeld}
        press={(key) => opened.current?.screen.press(key)}
        holdControl={(isHeld) => {
          setControlHeld(isHeld);
          opened.current?.screen.holdControl(isHeld);
        }}
      />
      <p class="muted">
        <kbd>Shift F6</kbd> leaves the terminal. A shell without a page is ended after five minutes. An open terminal
        counts as use of the instance.
      </p>
    </section>
  );
}
