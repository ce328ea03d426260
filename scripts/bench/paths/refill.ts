import { type BenchPool, createPool, MAX_FILL_CONCURRENCY } from "../fixtures/pool.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";
import { withUsage } from "./with-usage.ts";

/** Fills a new pool. A sample is one pod: the time from its appearance in the watch until it could be claimed. */
export async function measureRefill({ environment, quick }: BenchContext, signal: AbortSignal): Promise<Measurement[]> {
  const size = quick ? 100 : 300;
  const seenAt = new Map<string, number>();
  const samplesMs: number[] = [];
  let perSecond = 0;
  let pool: BenchPool | undefined;
  const used = await withUsage(environment, async () => {
    const began = performance.now();
    pool = await createPool(environment, {
      name: "bench-refill",
      size,
      maxFillConcurrency: MAX_FILL_CONCURRENCY,
      onChange({ type, object }, isReady) {
        const { name } = object.metadata;
        const since = seenAt.get(name);
        if (type === "added") seenAt.set(name, performance.now());
        else if (since !== undefined && isReady) {
          samplesMs.push(performance.now() - since);
          seenAt.delete(name);
        }
      },
    });
    await pool.untilFull(signal);
    perSecond = size / ((performance.now() - began) / 1000);
  });
  await pool?.remove(signal);
  const note = `one pod a sample, ${MAX_FILL_CONCURRENCY} started at once, each ready 50 ms after its node took it`;
  return [{ path: "refill", samplesMs, missed: 0, failures: {}, ...used, perSecond, note }];
}
