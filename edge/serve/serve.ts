import type { ListenAddress } from "../../crds/environment.ts";
import type { Log } from "../../crds/log.ts";
import type { Handler } from "../http/handler.ts";

/** A handler that listens. */
export interface Server {
  /** Where it listens, with the port that it got. */
  readonly url: string;
  /**
   * Stops accepting and lets requests in flight finish, for at most `graceMs` milliseconds; what is left then is cut.
   *
   * @returns whether every request finished
   */
  stop(options: { graceMs: number }): Promise<boolean>;
}

/**
 * Serves a handler; one adapter a runtime implements it. @throws where the address is taken or is not this machine's
 */
export type Serve = (options: { handler: Handler; listen: ListenAddress; log: Log }) => Promise<Server>;

/** The address of a server as a URL, with brackets round an IPv6 host. */
export function serverUrl(hostname: string, port: number): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** Resolves at the first SIGTERM or SIGINT; the second one ends the process at once, with the shell's code for it. */
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
