import { Sandbox } from "e2b";
import { systemClock } from "../../../crds/client/clock.ts";
import { sleep } from "../../../crds/waits.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { FILES_WORKLOAD } from "../fixtures/files-workload.ts";
import { createPool } from "../fixtures/pool.ts";
import type { Measurement } from "../report/measurement.ts";

const POOL_SIZE = 3;
/** A pool that is full is prepared a moment later: its commands that wait, and the edge's channel. */
const PREPARING_MS = 2000;

/** What E2B's own SDK waits for: a sandbox from a pool, and the output of its first and second command. */
export async function measureE2b(
  environment: BenchEnvironment,
  { n, signal }: { n: number; signal: AbortSignal },
): Promise<Measurement[]> {
  const workload = "bench-e2b";
  const entrypoint = { ...FILES_WORKLOAD.entrypoint, start: "OnClaim" as const };
  await createWorkload(environment, workload, { ...FILES_WORKLOAD, entrypoint, health: { readyWhen: "Running" } });
  const pool = await createPool(environment, { name: workload, size: POOL_SIZE, maxFillConcurrency: POOL_SIZE });
  const { edgeUrl } = environment;
  const options = { apiKey: "none", apiUrl: `${edgeUrl}/e2b`, sandboxUrl: edgeUrl };
  const created: number[] = [];
  const first: number[] = [];
  const second: number[] = [];
  try {
    for (let done = 0; done < n; done += 1) {
      await pool.untilFull(signal);
      await sleep(PREPARING_MS, { clock: systemClock, signal });
      const begun = performance.now();
      const sandbox = await Sandbox.create(workload, { ...options, signal });
      const given = performance.now();
      await sandbox.commands.run("echo");
      const printed = performance.now();
      await sandbox.commands.run("echo");
      created.push(given - begun);
      first.push(printed - begun);
      second.push(performance.now() - printed);
      await sandbox.kill();
    }
  } finally {
    await pool.remove(signal);
  }
  const common = { missed: 0, failures: {} };
  return [
    { path: "e2b-create", samplesMs: created, ...common },
    {
      path: "e2b-first-output",
      samplesMs: first,
      floorMs: second,
      ...common,
      note: "from Sandbox.create to the output of the first command; floor: the second command",
    },
  ];
}
