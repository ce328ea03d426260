import type { DriverCall } from "./driver.ts";

/** What a container may answer in all, and in one message. */
export const MAX_REPLY_BYTES = 1024 * 1024;

/** How long a new connection to an agent may take until the agent can be asked. */
export const HANDSHAKE_MS = 10_000;

/** The pause before the one retry: a pod can be Ready while its program still opens its port. */
export const RETRY_MS = 1000;

const DEFAULT_TIMEOUT_SECONDS = 300;

/** Milliseconds that a call may take in all. */
export function timeoutMs({ options }: DriverCall): number {
  return (options?.timeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS) * 1000;
}
