import { ApiError, eitherSignal, isFinal, type LooseCalls, pause, queryOf } from "./call.ts";
import type { Instance, ListedClaim, OpenPool, OpenTrigger, OpenWorkload } from "./operations.ts";
import type { OpenedSocket, Sockets } from "./socket.ts";

/** A change of an object. docs/reference/api.md describes the events. */
export interface ApiEvent {
  readonly id: string;
  /** Such as `claim.active`; `resync` if events are missing: read the lists again. */
  readonly type: string;
  readonly time: string;
  /** As after the change; a claim without its `message`. Absent for `resync`. */
  readonly object?: Partial<Instance> | Partial<ListedClaim> | OpenWorkload | OpenPool | OpenTrigger;
}

export interface EventOptions {
  /** Kinds or types, such as `claim` or `instance.deleted`. @default instance and claim */
  readonly types?: readonly string[] | undefined;
  readonly tenant?: string | undefined;
  readonly workload?: string | undefined;
  /** The id of the last event that was received. @default only what comes from now on */
  readonly since?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Beyond this the connection is closed until they are read; the server remembers 4 096. */
const MOST_WAITING = 1024;
/** A connection on which nothing came for so long is pinged, and closed if nothing has come after that again. */
const SILENCE_MS = 20_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
const GIVE_UP_MS = 5 * 60_000;
const FIRST_TRIES = 3;

/**
 * The events of `/ws`, at their reader's pace, until the signal, or until the loop is left. A lost connection is made
 * again and goes on after the last event.
 *
 * @throws ApiError if there is no connection for 5 minutes, or if the key does not allow it; the signal's reason
 */
export async function* followEvents(
  { types, tenant, workload, since, signal: own }: EventOptions,
  { calls, sockets, ends }: { calls: LooseCalls; sockets: Sockets; ends: AbortSignal | undefined },
): AsyncGenerator<ApiEvent, void> {
  const left = new AbortController();
  const signal = eitherSignal(eitherSignal(own, ends), left.signal) as AbortSignal;
  const waiting: ApiEvent[] = [];
  let wake = (): void => undefined;
  let last = since;
  let wasEverOpen = false;
  let tries = 0;
  let lostAt: number | undefined;
  let failure: { readonly error: unknown } | undefined;

  /** Connects once, and stays until the connection ends. */
  async function stay(): Promise<void> {
    let isAlive = true;
    let isLate = false;
    const onText = (text: string): void => {
      isAlive = true;
      if (isLate) return;
      const event = JSON.parse(text) as ApiEvent;
      last = event.id;
      wasEverOpen = true;
      tries = 0;
      lostAt = undefined;
      if (event.type === "pong") return;
      waiting.push(event);
      wake();
      isLate = waiting.length >= MOST_WAITING;
      if (isLate) opened.socket.close();
    };
    const query = { type: types?.join(","), tenant, workload, since: last };
    const opened: OpenedSocket = await sockets.open(`/ws${queryOf(query)}`, {
      ...{ protocols: ["tenancy.events"], listener: { onText }, signal },
      // The answer has the id after which to go on.
      onOpen: (socket) => socket.send("ping"),
    });
    const silence = setInterval(() => {
      if (!isAlive) opened.socket.close();
      else if (opened.isOpen()) opened.socket.send("ping");
      isAlive = false;
    }, SILENCE_MS);
    const { code, reason, wasOpen } = await opened.closed.finally(() => clearInterval(silence));
    signal.throwIfAborted();
    if (code > 4000 && code < 4500) throw new ApiError(reason || "the key has ended", { status: code - 4000 });
    // It throws what a request gets, in words; a socket does not have them.
    if (wasOpen) return;
    await calls
      .call("GET /api/v1/claims", { query: { limit: 1, tenant, workload }, signal })
      .catch((error: unknown) => {
        if (isFinal(error)) throw error;
      });
  }

  async function connectAgain(): Promise<void> {
    while (failure === undefined) {
      await stay();
      while (waiting.length >= MOST_WAITING) await pause(FIRST_PAUSE_MS, signal);
      lostAt ??= performance.now();
      tries += 1;
      const isTooLong = performance.now() - lostAt > GIVE_UP_MS || (!wasEverOpen && tries >= FIRST_TRIES);
      if (isTooLong) throw new ApiError("the WebSocket of events cannot be opened", { status: 0 });
      await pause(Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LONGEST_PAUSE_MS), signal);
    }
  }

  const connected = connectAgain().catch((error: unknown) => {
    failure = { error };
    wake();
  });
  try {
    for (;;) {
      const event = waiting.shift();
      if (event !== undefined) yield event;
      else if (failure !== undefined) throw failure.error;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  } finally {
    left.abort(new Error("the events are not read any more"));
    await connected;
  }
}
