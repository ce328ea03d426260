import type { Clock } from "../../crds/client/clock.ts";
import { steadyClock } from "../../crds/client/clock.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import { TOOLS_INSIDE, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { quote } from "../../crds/quote.ts";
import { linkSignals, orAborted } from "../../crds/waits.ts";
import { HttpError } from "../http/http-error.ts";
import { type Channel, openChannel } from "./channel.ts";

/** How long a channel without calls stays open. No exec may be left in a pod a minute after its last client is gone. */
const IDLE_MS = 60_000;

export interface PodId {
  readonly name: string;
  readonly uid: string;
}

/** The channels to pods, one for each pod that is in use. */
export interface Channels {
  /**
   * Returns the channel to a pod; opens it if there is none. Make the call at once: a channel without calls closes
   * after 60 s.
   *
   * @throws as `openChannel` and `isPresent` do
   * @throws HttpError 410 if another pod of the name is there
   * @throws the signal's reason if it is aborted; other callers still get the channel
   */
  channelTo(pod: PodId, signal?: AbortSignal): Promise<Channel>;
  /** Closes all channels. Resolves when their execs have ended. */
  close(): Promise<void>;
}

/** A channel that opens or is open. */
interface Entry {
  readonly opening: Promise<Channel>;
  channel: Channel | undefined;
  /** Callers that wait for it to open. */
  waiting: number;
  /** Ends the exec. */
  readonly stop: (reason: unknown) => void;
  cancelIdle: () => void;
}

/** @param options.isPresent asks the API server whether the pod of that name has that uid */
export function createChannels(options: {
  exec: Exec;
  isPresent: (pod: PodId) => Promise<boolean>;
  namespace: string;
  clock?: Clock | undefined;
}): Channels {
  const { exec, isPresent, namespace, clock = steadyClock } = options;
  /** By uid: a pod of the same name may follow. */
  const entries = new Map<string, Entry>();
  /** Execs that have not ended, also of channels that are closed. */
  const running = new Set<Promise<void>>();
  let isClosed = false;

  function forget(uid: string, entry: Entry): void {
    entry.cancelIdle();
    if (entries.get(uid) === entry) entries.delete(uid);
  }

  /** Starts the time without calls again. */
  function restartIdle(uid: string, entry: Entry): void {
    entry.cancelIdle();
    if (entries.get(uid) !== entry) return;
    entry.cancelIdle = clock.after(IDLE_MS, () => {
      // If a call is open, its end starts the time.
      if (entry.channel === undefined || entry.channel.openCalls() > 0) return;
      forget(uid, entry);
      entry.channel.close();
    });
  }

  function open({ name, uid }: PodId): Entry {
    const stop = linkSignals();
    const target = { namespace, pod: name, container: WORKLOAD_CONTAINER, command: [TOOLS_INSIDE, "connect"] };
    const opening = openChannel({
      run(streams) {
        const result = exec({ ...target, ...streams });
        const ended: Promise<void> = result.then(ignore, ignore).finally(() => running.delete(ended));
        running.add(ended);
        return result;
      },
      ...{ signal: stop.signal, clock },
      onCallEnd: () => restartIdle(uid, entry),
      onClose: () => forget(uid, entry),
    }).then((channel) => requirePresent(channel, { name, uid }));
    const entry: Entry = { opening, channel: undefined, waiting: 0, stop: stop.abort, cancelIdle: ignore };
    entries.set(uid, entry);
    opening.then(
      (channel) => {
        entry.channel = channel;
        restartIdle(uid, entry);
      },
      () => forget(uid, entry),
    );
    return entry;
  }

  /** An exec names no uid, and another pod of this name may have come before it. */
  async function requirePresent(channel: Channel, pod: PodId): Promise<Channel> {
    try {
      if (await isPresent(pod)) return channel;
    } catch (error) {
      channel.close();
      throw error;
    }
    channel.close();
    throw new HttpError(410, `instance ${quote(pod.name)} was replaced by another pod of its name; try again`);
  }

  return {
    async channelTo(pod, signal) {
      signal?.throwIfAborted();
      if (isClosed) throw new Error("Cannot open a channel to a pod: this server is stopping");
      const entry = entries.get(pod.uid) ?? open(pod);
      entry.waiting += 1;
      try {
        const channel = await (signal === undefined ? entry.opening : orAborted(entry.opening, signal));
        restartIdle(pod.uid, entry);
        return channel;
      } finally {
        entry.waiting -= 1;
        if (entry.waiting === 0 && entry.channel === undefined) {
          forget(pod.uid, entry);
          entry.stop(signal?.reason);
        }
      }
    },
    async close() {
      isClosed = true;
      for (const entry of entries.values())
        entry.stop(new Error("Cannot use a channel to a pod: this server is stopping"));
      await Promise.all(running);
    },
  };
}

function ignore(): void {
  // Its callers receive the failure.
}
