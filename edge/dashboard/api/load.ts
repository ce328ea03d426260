import { useEffect, useRef, useState } from "preact/hooks";
import { CallError } from "./call.ts";
import { logins } from "./session.ts";

/** What was read of the API, and how it went the last time. */
export interface Loaded<T> {
  /** Undefined until it was read once. */
  readonly value: T | undefined;
  readonly error: Error | undefined;
  again(): void;
}

const PAUSE_MS = 1000;

/**
 * Reads something when the component comes to the page, and again when `version` changes or it is asked for; a second at
 * least lies between two readings.
 *
 * @param of what is read: another one shows nothing of the one before; undefined reads nothing
 */
export function useLoad<T>(
  of: string | undefined,
  read: (signal: AbortSignal) => Promise<T>,
  version: unknown = 0,
): Loaded<T> {
  const [shown, setShown] = useState<{ of: string | undefined; value?: T; error?: Error }>({ of });
  const [asked, setAsked] = useState(0);
  const readAt = useRef<{ of?: string; at: number }>({ at: 0 });
  const latest = useRef(read);
  latest.current = read;

  const wasRefused = shown.error instanceof CallError && shown.error.status === 401;
  const login = logins.value;
  useEffect(() => {
    if (wasRefused) setAsked((count) => count + 1);
  }, [login]);

  useEffect(() => {
    if (of === undefined) return;
    const aborted = new AbortController();
    const since = performance.now() - readAt.current.at;
    const pauseMs = readAt.current.of === of && since < PAUSE_MS ? PAUSE_MS - since : 0;
    const timer = setTimeout(() => {
      readAt.current = { of, at: performance.now() };
      latest.current(aborted.signal).then(
        (value) => !aborted.signal.aborted && setShown({ of, value }),
        (error: Error) =>
          !aborted.signal.aborted && setShown((before) => ({ ...(before.of === of ? before : { of }), error })),
      );
    }, pauseMs);
    return () => {
      clearTimeout(timer);
      aborted.abort();
    };
  }, [of, version, asked]);

  const { value, error } = shown.of === of ? shown : { value: undefined, error: undefined };
  return { value, error, again: () => setAsked((count) => count + 1) };
}
