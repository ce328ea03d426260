import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { CallError, send } from "../api/call.ts";
import { changeQuery, place } from "../route.ts";
import { useKey } from "./keys.ts";
import { createLogLines } from "./log-lines.ts";
import { Problem } from "./problem.tsx";

const ROW_PX = 18;
const AROUND = 20;
const TAIL = 1000;

/** Reads a log until it ends or the signal aborts. */
export type LogSource = (signal: AbortSignal) => AsyncIterable<string>;

type State = "reading" | "following" | "ended" | "hidden";

const words: Readonly<Record<State, string>> = {
  reading: "reading …",
  following: "following",
  ended: "ended",
  hidden: "stopped while the page was hidden",
};

/**
 * A log that is followed while the page is visible, with a search whose text is in the address.
 *
 * @param props.path of the log, below `/api/v1`
 * @param props.open how it is read, if it is more than text
 */
export function Log({ path, label, open }: { path: string; label: string; open?: LogSource }) {
  const find = place.value.searchParams.get("find") ?? "";
  const [round, setRound] = useState(0);
  const { lines, version, state, error } = useMemo(
    () => ({
      lines: createLogLines(),
      version: signal(0),
      state: signal<State>("reading"),
      error: signal<Error | undefined>(undefined),
    }),
    [path, round],
  );
  const box = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [view, setView] = useState({ top: 0, height: 400 });
  const [isAtEnd, setAtEnd] = useState(true);

  useEffect(() => {
    const { stop } = follow(path, { lines, version, state, error, open });
    return stop;
  }, [path, round]);
  useEffect(() => {
    const onSeen = (): void => {
      // The edge allows few log readers: a hidden page gives up its slot.
      if (document.hidden) return;
      if (state.peek() === "hidden") setRound((before) => before + 1);
    };
    document.addEventListener("visibilitychange", onSeen);
    return () => document.removeEventListener("visibilitychange", onSeen);
  }, [state]);
  useLayoutEffect(() => {
    lines.find(find);
    version.value += 1;
  }, [find, lines]);
  useKey("/", "Find in log", () => input.current?.focus());

  version.value;
  const { hits } = lines;
  const count = hits?.length ?? lines.count;
  useLayoutEffect(() => {
    const { current } = box;
    if (current !== null && isAtEnd) current.scrollTop = current.scrollHeight;
  }, [count, path, round, isAtEnd]);
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - AROUND);
  const last = Math.min(count, Math.ceil((view.top + view.height) / ROW_PX) + AROUND);
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, at) => hits?.[first + at] ?? first + at);

  return (
    <div class="log">
      <div class="filter">
        <input
          {...{ ref: input, type: "search", placeholder: "Find", "aria-label": "Find in log", value: find }}
          spellcheck={false}
          onInput={(event) => changeQuery({ find: event.currentTarget.value })}
        />
        <button type="button" aria-pressed={isAtEnd} onClick={() => setAtEnd(!isAtEnd)}>
          Follow
        </button>
        {state.value === "ended" && (
          <button type="button" onClick={() => setRound(round + 1)}>
            Reload
          </button>
        )}
        <span class="muted">
          {hits === undefined ? `${lines.count} lines` : `${hits.length} of ${lines.count} lines`}
          {lines.dropped > 0 && `, ${lines.dropped} older lines dropped`}, {words[state.value]}
        </span>
      </div>
      <div
        {...{ class: "lines", ref: box, role: "log", "aria-live": "off", "aria-label": label, tabIndex: 0 }}
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
          setAtEnd(scrollTop + clientHeight >= scrollHeight - ROW_PX);
          setView({ top: scrollTop, height: clientHeight });
        }}
      >
        <div style={{ height: `${count * ROW_PX}px` }}>
          <div style={{ transform: `translateY(${first * ROW_PX}px)` }}>
            {shown.map((at) => (
              <div class="line" key={at + lines.dropped}>
                {lines.line(at)}
              </div>
            ))}
          </div>
        </div>
      </div>
      <Problem error={error.value} />
    </div>
  );
}

interface Reading {
  readonly lines: ReturnType<typeof createLogLines>;
  readonly version: { value: number };
  readonly state: { value: State };
  readonly error: { value: Error | undefined };
  readonly open: LogSource | undefined;
}

/** Reads a log from its last lines, until it ends, the page is hidden, or the read is stopped. */
function follow(path: string, { lines, version, state, error, open }: Reading): { stop(): void } {
  const aborted = new AbortController();
  let frame = 0;
  const onHidden = (): void => {
    if (!document.hidden) return;
    state.value = "hidden";
    aborted.abort();
  };
  document.addEventListener("visibilitychange", onHidden);
  const reading = read().catch(async (cause) => {
    if (!(cause instanceof CallError)) await explain();
    throw cause;
  });
  void reading.then(
    () => {
      lines.end();
      state.value = "ended";
    },
    (cause: Error) => {
      if (aborted.signal.aborted) return;
      error.value = cause instanceof CallError ? cause : new Error("Connection to the edge lost", { cause });
      state.value = "ended";
    },
  );
  return {
    stop() {
      document.removeEventListener("visibilitychange", onHidden);
      cancelAnimationFrame(frame);
      aborted.abort();
    },
  };

  async function read(): Promise<void> {
    for await (const text of (open ?? textOf)(aborted.signal)) {
      state.value = "following";
      lines.add(text);
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        version.value += 1;
      });
    }
    cancelAnimationFrame(frame);
    version.value += 1;
  }

  async function* textOf(signal: AbortSignal): AsyncGenerator<string, void> {
    const separator = path.includes("?") ? "&" : "?";
    yield* textIn(await send("GET", `${path}${separator}follow=true&tail=${TAIL}`, { signal }));
  }

  /** A response that has begun cannot explain why it broke off; a second request without `follow` can. */
  async function explain(): Promise<void> {
    if (aborted.signal.aborted || open !== undefined || lines.count > 0) return;
    await send("GET", `${path}${path.includes("?") ? "&" : "?"}tail=1`, { signal: aborted.signal });
  }
}

/** The text of a body, as it comes; first an empty one. */
export async function* textIn({ body }: Response): AsyncGenerator<string, void> {
  yield "";
  if (body === null) return;
  const decoder = new TextDecoder();
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}
