import { type ChildProcess, spawn } from "node:child_process";
import { type ClaimOutcome, claimCall } from "../load/claim-call.ts";
import { openLoop, poissonArrivals, seededRandom } from "../load/open-loop.ts";
import type { Measurement } from "../report/measurement.ts";
import { percentile } from "../report/summarise.ts";
import type { BenchContext } from "./bench-context.ts";
import { findHighestRate } from "./ladder.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const FACTORS = [1, 1.5, 2];

/** A later response is useless to most callers. */
const USEFUL_MS = 2000;

/**
 * Claims from the pool at the highest rate held and beyond it, while another program uses one core. Measures how many
 * claims per second are answered within two seconds, and how fast the others are refused. The claims stay.
 */
export async function measureOverload(context: BenchContext, signal: AbortSignal): Promise<Measurement[]> {
  const burner = startBurner();
  try {
    await context.pool(signal);
    const { step, steps } = await findHighestRate(context, signal);
    const best = step.held ? step.perSecond : Math.min(...steps.map(({ perSecond }) => perSecond));
    const measured: Measurement[] = [];
    for (const factor of FACTORS) measured.push(await measureFactor(context, { factor, best, signal }));
    return measured;
  } finally {
    burner.kill("SIGKILL");
  }
}

/** A program that uses as much CPU time as it gets, up to one core. */
function startBurner(): ChildProcess {
  return spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" });
}

async function measureFactor(
  context: BenchContext,
  { factor, best, signal }: { factor: number; best: number; signal: AbortSignal },
): Promise<Measurement> {
  const { environment, quick, seed, log } = context;
  const pool = await context.pool(signal);
  await pool.untilFull(signal);
  const seconds = quick ? 15 : 60;
  const perSecond = best * factor;
  const arrivalsMs = poissonArrivals({ perSecond, seconds, random: seededRandom(seed) });
  const seen: { at: number; ms: number; outcome: ClaimOutcome }[] = [];
  const send = async (index: number, intendedAt: number) => {
    const outcome = await claimCall(environment.edge, {
      tenantId: `overload-${factor * 10}-${index}`,
      workload: pool.workload,
    });
    seen.push({ at: arrivalsMs[index] ?? 0, ms: performance.now() - intendedAt, outcome });
  };
  const used = await reportEvery(
    log,
    () => `${factor} x ${best}/s: ${seen.length} of ${arrivalsMs.length} claims, ${pool.warm.readyCount()} pods ready`,
    () => withUsage(environment, () => openLoop(arrivalsMs, { send, signal })),
  );

  const answered = seen.filter(({ outcome }) => outcome.kind === "answered");
  const refused = seen.filter(({ outcome }) => outcome.kind === "failed" && outcome.isRefused === true);
  const failed = seen.filter(({ outcome }) => outcome.kind === "failed" && outcome.isRefused !== true);
  const useful = answered.filter(({ ms }) => ms <= USEFUL_MS);
  const failures: Record<string, number> = {};
  for (const { outcome } of seen)
    if (outcome.kind === "failed") failures[outcome.why] = (failures[outcome.why] ?? 0) + 1;
  const missed = answered.filter(({ outcome }) => outcome.kind === "answered" && outcome.source !== "pool").length;
  const refusedP99 = refused.length === 0 ? "" : `, 99 in 100 within ${Math.round(at(refused, 0.99))} ms`;
  const windows = Array.from({ length: Math.ceil(seconds / 10) }, (_, index) =>
    answered.filter((one) => Math.floor(one.at / 10_000) === index),
  );
  const note =
    `${factor} x the highest rate held (${best}/s) for ${seconds} s beside a program that takes one core; ` +
    `per s: answered within ${USEFUL_MS / 1000} s; ${answered.length} answered, ${refused.length} refused${refusedP99}, ` +
    `${failed.length} failed; p50 of each 10 s: ${windows.map((ones) => (ones.length === 0 ? "-" : Math.round(at(ones, 0.5)))).join(", ")} ms`;
  return {
    path: `overload-${factor}`,
    samplesMs: [...answered.map(({ ms }) => ms), ...failed.map(() => Number.POSITIVE_INFINITY)],
    missed,
    failures,
    ...used,
    perSecond: useful.length / seconds,
    note,
  };

  function at(ones: readonly { ms: number }[], share: number): number {
    return percentile(
      ones.map(({ ms }) => ms).sort((a, b) => a - b),
      share,
    );
  }
}
