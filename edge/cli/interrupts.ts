import { CommandError } from "./command.ts";

/** The signals that end the program. */
export interface Interrupts {
  /** Aborted by the first signal, unless a command takes it. */
  readonly signal: AbortSignal;
  /** Takes the first Ctrl-C: the next one ends the program. @returns stops that */
  take(handle: () => void): () => void;
  /** Ends what runs, with this exit code. */
  end(message: string, exitCode: number): void;
}

/** The exit code of a program that a signal has ended, as shells give it. */
export const EXIT_OF_SIGNAL = { SIGHUP: 129, SIGINT: 130, SIGPIPE: 141, SIGTERM: 143 } as const;

export interface SignalSource {
  on(signal: "SIGINT" | "SIGTERM" | "SIGHUP", handle: () => void): unknown;
}

/** @param options.kill ends the program at once */
export function createInterrupts(source: SignalSource, { kill }: { kill: (exitCode: number) => void }): Interrupts {
  const controller = new AbortController();
  let taken: (() => void) | undefined;

  function end(message: string, exitCode: number): void {
    if (controller.signal.aborted) kill(exitCode);
    else controller.abort(new CommandError(message, { exitCode }));
  }

  source.on("SIGINT", () => {
    const handle = taken;
    taken = undefined;
    if (handle === undefined) end("interrupted", EXIT_OF_SIGNAL.SIGINT);
    else handle();
  });
  source.on("SIGTERM", () => end("ended by SIGTERM", EXIT_OF_SIGNAL.SIGTERM));
  source.on("SIGHUP", () => end("ended by SIGHUP", EXIT_OF_SIGNAL.SIGHUP));

  return {
    signal: controller.signal,
    end,
    take(handle) {
      taken = handle;
      return () => {
        if (taken === handle) taken = undefined;
      };
    },
  };
}
