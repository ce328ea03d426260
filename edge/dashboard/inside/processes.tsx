import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { InstanceHead } from "../claims/tabs.tsx";
import { type Acts, Outcome, Refresh, useActs } from "../parts/acts.tsx";
import { confirm } from "../parts/confirm.tsx";
import { useFocusOn } from "../parts/focus.ts";
import { insideHref } from "../parts/hrefs.ts";
import { Log } from "../parts/log.tsx";
import { Long } from "../parts/long.tsx";
import { Problem, Reading } from "../parts/problem.tsx";
import { When } from "../parts/when.tsx";
import { navigate, type PageParams, place } from "../route.ts";
import { followOutput } from "./process-output.ts";
import { commandWords, type Process, stateOf } from "./process-words.ts";
import { StartProcess } from "./start-process.tsx";

export default function Processes({ params }: { params: PageParams }) {
  const { name = "" } = params;
  const path = `/instances/${encodeURIComponent(name)}/processes`;
  const list = useLoad(path, (signal) => call<Process[]>("GET", path, { signal }));
  const acts = useActs();
  const pid = place.value.searchParams.get("pid") ?? "";
  const heading = useFocusOn<HTMLHeadingElement>(pid);
  const all = list.value;
  return (
    <>
      <InstanceHead of={name} current="processes" />
      <section aria-labelledby="all" class="processes">
        <h2 id="all">Processes that were started here</h2>
        <div class="acts">
          <Refresh acts={acts} again={list.again} />
        </div>
        <Outcome acts={acts} />
        <Problem error={list.error} />
        <Reading of={list} />
        {all?.length === 0 && <p>None. The workload's own program is not listed.</p>}
        {all !== undefined && all.length > 0 && (
          <table aria-labelledby="all" class="stack files">
            <thead>
              <tr>
                <th scope="col">Process</th>
                <th scope="col">Command</th>
                <th scope="col">State</th>
                <th scope="col">Started</th>
                <th scope="col">Actions</th>
              </tr>
            </thead>
            <tbody>
              {all.map((one) => (
                <Row key={one.pid} of={one} {...{ instance: name, path, acts }} onSignal={list.again} />
              ))}
            </tbody>
          </table>
        )}
      </section>
      {all !== undefined && (
        <StartProcess
          {...{ path, acts }}
          onStarted={(started) => {
            list.again();
            navigate(insideHref(name, "processes", { pid: String(started.pid) }), { replace: true });
          }}
        />
      )}
      {/^[1-9]\d{0,6}$/.test(pid) && all !== undefined && (
        <Output {...{ pid, heading }} path={`${path}/${pid}`} onEnd={list.again} />
      )}
    </>
  );
}

function Row(props: { of: Process; instance: string; path: string; acts: Acts; onSignal(): void }) {
  const { of, instance, path, acts, onSignal } = props;
  const { pid, command, tty, background, state, startedAt } = of;
  const isRunning = state === "running";
  const words = commandWords(command);
  return (
    <tr>
      <th scope="row">{pid}</th>
      <td>
        <code>
          <Long of={words} />
        </code>
      </td>
      <td>
        {stateOf(of)}
        {!background && <span class="muted"> for a caller that waits</span>}
      </td>
      <td data-label="started">
        <When at={startedAt} />
      </td>
      <td>
        <span class="acts">
          <a
            class="button"
            aria-label={`Output of ${pid}`}
            href={insideHref(instance, "processes", { pid: String(pid) })}
          >
            Output
          </a>
          {tty && isRunning && (
            <a
              class="button"
              aria-label={`Attach to ${pid}`}
              href={insideHref(instance, "terminal", { pid: String(pid) })}
            >
              Attach
            </a>
          )}
          {isRunning && (
            <>
              <button type="button" aria-label={`Terminate ${pid}`} onClick={() => send("SIGTERM")}>
                Terminate
              </button>
              <button type="button" class="danger" aria-label={`Kill ${pid}`} onClick={() => send("SIGKILL")}>
                Kill
              </button>
            </>
          )}
        </span>
      </td>
    </tr>
  );

  /** Asks for confirmation first. */
  function send(signal: "SIGTERM" | "SIGKILL"): void {
    acts.run(`${signal} ${pid}`, async () => {
      const isMeant = await confirm({
        title: `Send ${signal} to process ${pid}?`,
        lost: (
          <>
            <p>
              {signal === "SIGTERM" ? "It is asked to end" : "It ends without saving anything"}, with all processes of
              its group.
            </p>
            <p>
              <code>{words.slice(0, 200)}</code>
            </p>
          </>
        ),
        verb: signal === "SIGTERM" ? "Terminate" : "Kill",
      });
      if (!isMeant) return undefined;
      await call("POST", `${path}/${pid}/signal`, { body: { signal } });
      onSignal();
      return `${signal} was sent to process ${pid}.`;
    });
  }
}

/** The output of a process that is kept, and what follows. */
function Output(props: { pid: string; path: string; heading: RefObject<HTMLHeadingElement | null>; onEnd(): void }) {
  const { pid, path, heading, onEnd } = props;
  const [last, setLast] = useState<Process>();
  const ended = String(last?.pid) === pid ? last : undefined;
  return (
    <section aria-labelledby="output">
      <h2 id="output" tabIndex={-1} ref={heading}>
        Output of process {pid} {ended !== undefined && <small class="muted">{stateOf(ended)}</small>}
      </h2>
      <Log
        path={path}
        label={`Output of process ${pid}`}
        open={(signal) =>
          followOutput(path, {
            signal,
            onEnd(process) {
              setLast(process);
              onEnd();
            },
          })
        }
      />
    </section>
  );
}
