import { ApiError } from "../../../crds/client/api-error.ts";

/** A trigger's state as the API server keeps it: every adapter reads and writes it under its own precondition. */
export class SharedStatus {
  state: Record<string, unknown> = {};
  version = 1;
  writes = 0;
  reads = 0;
  /** While set, no call gets an answer. */
  outage: Error | undefined;

  /** What one adapter sees of it. */
  open(): { readState(): Promise<Record<string, unknown>>; writeState(state: Record<string, unknown>): Promise<void> } {
    let seen: number | undefined;
    const arrive = async (): Promise<void> => {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.outage !== undefined) throw this.outage;
    };
    return {
      readState: async () => {
        await arrive();
        this.reads += 1;
        seen = this.version;
        return structuredClone(this.state);
      },
      writeState: async (state) => {
        await arrive();
        if (seen !== undefined && seen !== this.version)
          throw new ApiError("changed", { status: 409, reason: "Conflict" });
        this.state = structuredClone(state);
        this.version += 1;
        this.writes += 1;
        seen = this.version;
      },
    };
  }
}
