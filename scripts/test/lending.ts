/** Something that test files use one after the other. For each, it is as if it were new. */
export interface Lendable {
  /** The environment variables that describe it to a file. */
  readonly environment: NodeJS.ProcessEnv;
  /** Restores its first state. @throws Error if that is not possible */
  reset(): Promise<void>;
  end(): Promise<void>;
}

export interface Lending {
  /**
   * Gives a test file an idle one, or else a new one.
   *
   * @param use called with the environment variables for the file; empty if none can be started
   */
  lend<T>(use: (environment: NodeJS.ProcessEnv) => Promise<T>): Promise<T>;
  /** Stops the idle ones. */
  stop(): Promise<void>;
}

/**
 * Starts shared things when test files need them. A thing whose first state cannot be restored is stopped.
 *
 * @param start creates the next one; called with its number
 */
export function lending(
  start: (number: number) => Promise<Lendable>,
  { what, log }: { what: string; log: (message: string) => void },
): Lending {
  const idle: Lendable[] = [];
  let started = 0;

  async function startOrSay(): Promise<Lendable | undefined> {
    started += 1;
    try {
      return await start(started);
    } catch (error) {
      log(`a ${what} cannot be lent: ${(error as Error).message}`);
      return undefined;
    }
  }

  return {
    async lend(use) {
      const lent = idle.pop() ?? (await startOrSay());
      if (lent === undefined) return use({});
      try {
        return await use(lent.environment);
      } finally {
        try {
          await lent.reset();
          idle.push(lent);
        } catch (error) {
          log(`a ${what} is not used again: ${(error as Error).message}`);
          await lent.end();
        }
      }
    },
    async stop() {
      await Promise.all(idle.splice(0).map((one) => one.end()));
    },
  };
}
