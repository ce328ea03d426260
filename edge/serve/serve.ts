import type { ListenAddress } from "../../crds/environment.ts";
import type { Log } from "../../crds/log.ts";
import type { Handler } from "../http/handler.ts";

/** A listening server. */
export interface Server {
  /** Its URL, with the actual port. */
  readonly url: string;
  /**
   * Stops accepting and waits at most `graceMs` milliseconds for requests in flight; then closes the rest.
   *
   * @returns whether every request finished
   */
  stop(options: { graceMs: number }): Promise<boolean>;
}

/**
 * Serves a handler; each runtime's adapter implements it. @throws if the address is taken or does not belong to this
 * machine
 */
export type Serve = (options: { handler: Handler; listen: ListenAddress; log: Log }) => Promise<Server>;

/** The URL of a server, with brackets around an IPv6 host. */
export function serverUrl(hostname: string, port: number): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/**
 * Resolves at the first SIGTERM or SIGINT; the second one ends the process immediately, with the shell's exit code for
 * it.
 */
export function stopSignal(process: {
  on(name: "SIGTERM" | "SIGINT", listener: () => void): unknown;
  exit(code: number): void;
}): Promise<"SIGTERM" | "SIGINT"> {
  return new Promise((resolve) => {
    let stopping = false;
    for (const [name, code] of [
      ["SIGTERM", 143],
      ["SIGINT", 130],
    ] as const) {
      process.on(name, () => {
        if (stopping) process.exit(code);
        stopping = true;
        resolve(name);
      });
    }
  });
}
