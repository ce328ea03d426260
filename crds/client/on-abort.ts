import { setMaxListeners } from "node:events";

/** Calls back once when the signal is aborted; the function it returns ends that. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => undefined;
  // A process has one signal to stop by, and many calls under way that listen to it: that is no leak, as Node 20 takes it for.
  setMaxListeners(0, signal);
  signal.addEventListener("abort", callback, { once: true });
  return () => signal.removeEventListener("abort", callback);
}
