import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startReceiver } from "../../unit/sink/receiver.ts";

/** A sink that takes half of the requests. */
export interface FaultySink {
  readonly url: string;
  /** For the backlog of one operator after the other. */
  readonly folder: string;
  /** The ids of what it has taken, each once, by type. */
  taken(): ReadonlyMap<string, ReadonlySet<string>>;
  stop(): Promise<void>;
}

export async function startFaultySink(): Promise<FaultySink> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-sink-"));
  // An answer can also be lost, or say that it failed although the events were taken.
  const answers = [200, 503, 200, undefined];
  let requests = 0;
  const receiver = await startReceiver({ answer: () => answers[requests++ % answers.length] });
  return {
    url: receiver.url,
    folder,
    taken() {
      const byType = new Map<string, Set<string>>();
      for (const { type, id } of receiver.taken.flatMap(({ events }) => events))
        byType.set(type, (byType.get(type) ?? new Set()).add(id));
      return byType;
    },
    async stop() {
      await receiver.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
