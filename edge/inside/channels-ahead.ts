import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import type { Channel } from "./channel.ts";
import type { Channels, PodId } from "./channels.ts";

/** How long after a claim the next one of its workload is expected. */
const EXPECTED_MS = 10 * 60_000;
/** A channel without calls closes after a minute. */
const LOOK_EVERY_MS = 45_000;
/** Of a claim and its first calls, which the next pod's exec would slow down. */
const SOON_MS = 250;
/** Workloads with an open channel. */
const MOST = 32;

/**
 * Opens the channel to a warm pod before a claim takes the pod: an exec takes several times as long as a claim. It is
 * done for the workloads whose pods were called lately, one pod each. A wrong guess costs an exec that ends in a
 * minute.
 */
export interface ChannelsAhead {
  /** Call this before a claim whose pod will be called: the exec runs beside the claim. */
  begin(workload: string): void;
  /** Call this when a call is made on the channel to the pod of a claim: the first one counts. */
  used(workload: string, channel: Channel): void;
  close(): void;
}

/** @param options.nextPod the warm pod that the next claim will probably get */
export function createChannelsAhead(options: {
  channels: Pick<Channels, "channelTo">;
  nextPod: (workload: string) => PodId | undefined;
  log: Log;
  clock?: Clock | undefined;
}): ChannelsAhead {
  const { channels, nextPod, log, clock = steadyClock } = options;
  const called = new WeakSet<Channel>();
  /** Those expected last are last. */
  const expected = new Map<string, { readonly untilMs: number; cancel: () => void }>();

  function forget(workload: string): void {
    expected.get(workload)?.cancel();
    expected.delete(workload);
  }

  function lookIn(workload: string, delayMs: number): void {
    const entry = expected.get(workload);
    if (entry === undefined) return;
    entry.cancel();
    entry.cancel = clock.after(delayMs, () => look(workload));
  }

  function look(workload: string): void {
    const { untilMs = 0 } = expected.get(workload) ?? {};
    const pod = clock.now() < untilMs ? nextPod(workload) : undefined;
    if (pod === undefined) {
      forget(workload);
      return;
    }
    lookIn(workload, LOOK_EVERY_MS);
    channels.channelTo(pod).catch((error: unknown) => {
      log.debug({ pod: pod.name, error: String(error) }, "no channel was opened ahead of a claim");
      // Such as that of a pod without the tools.
      forget(workload);
    });
  }

  function expect(workload: string): void {
    forget(workload);
    const [oldest] = expected.keys();
    if (expected.size >= MOST && oldest !== undefined) forget(oldest);
    expected.set(workload, { untilMs: clock.now() + EXPECTED_MS, cancel: () => undefined });
  }

  return {
    begin(workload) {
      expect(workload);
      look(workload);
    },
    used(workload, channel) {
      if (called.has(channel)) return;
      called.add(channel);
      expect(workload);
      lookIn(workload, SOON_MS);
    },
    close() {
      for (const workload of [...expected.keys()]) forget(workload);
    },
  };
}
