import { FINEST_STEP, type Measurement, type RateStep } from "../report/measurement.ts";
import { finite, percentile } from "../report/summarise.ts";
import type { BenchContext } from "./bench-context.ts";
import { claimAtRate } from "./pool.ts";

const START = 60;
const STEP = 20;

/**
 * The rate to try next: up or down by 20 until one rate is held and another is not, then halfway between the two.
 *
 * A rate that is not held is tried again: at 60/s for 20 s, a single stall of a second affects more than one claim in a
 * hundred.
 *
 * @returns undefined if the highest rate held is known to within 5 per second
 */
export function nextRate(steps: readonly Pick<RateStep, "perSecond" | "held">[]): number | undefined {
  const last = steps.at(-1);
  if (last === undefined) return START;
  if (!last.held && steps.filter(({ perSecond }) => perSecond === last.perSecond).length === 1) return last.perSecond;
  const held = Math.max(0, ...steps.filter((step) => step.held).map(({ perSecond }) => perSecond));
  const isHeld = (rate: number) => steps.some((step) => step.held && step.perSecond === rate);
  const failed = Math.min(...steps.map(({ perSecond }) => perSecond).filter((rate) => !isHeld(rate)));
  if (failed === Number.POSITIVE_INFINITY) return held + STEP;
  if (held === 0 && failed > STEP) return failed - STEP;
  if (failed - held <= FINEST_STEP) return undefined;
  return held + Math.ceil((failed - held) / 2 / FINEST_STEP) * FINEST_STEP;
}

const LIMIT_MS = 500;
const WARM_UP = { perSecond: 30, seconds: 10, name: "ladder-warm-up" };
// A step takes at most 25 s with everything that it leaves behind, so all steps take at most two and a half minutes.
const NO_STEP_AFTER_MS = 115_000;

/** Finds the highest rate of pool claims of which 99 in 100 are answered within half a second; the claims stay. */
export async function measureLadder(context: BenchContext, signal: AbortSignal): Promise<Measurement[]> {
  const { samplesMs: floorMs } = await context.floor(signal);
  const { step, measurement, steps, seconds } = await findHighestRate(context, signal);
  const note =
    `the highest rate held for ${seconds} s (Poisson, seed ${context.seed}): p99 <= ${LIMIT_MS} ms, none failed, all from the pool; ` +
    `figures of ${step.perSecond}/s. ${steps.map(describe).join("; ")}`;
  return [{ path: "ladder", ...measurement, floorMs, perSecond: step.held ? step.perSecond : 0, steps, note }];
}

/**
 * @returns the highest rate that was held with what was measured at it, or the last one tried where none was; and all
 *   rates tried
 */
export async function findHighestRate(
  context: BenchContext,
  signal: AbortSignal,
): Promise<{ step: RateStep; measurement: Omit<Measurement, "path">; steps: RateStep[]; seconds: number }> {
  const { quick, log } = context;
  const seconds = quick ? 5 : 20;
  const began = performance.now();
  await claimAtRate(context, { ...WARM_UP, signal });
  const steps: RateStep[] = [];
  let shown: Awaited<ReturnType<typeof tryRate>> | undefined;
  for (let rate = nextRate(steps); rate !== undefined; rate = nextRate(steps)) {
    if (steps.length > 0 && performance.now() - began > NO_STEP_AFTER_MS) break;
    const tried = await tryRate(rate);
    log(describe(tried.step));
    steps.push(tried.step);
    if (shown === undefined || tried.step.held || !shown.step.held) shown = tried;
  }
  if (shown === undefined) throw new Error("Cannot find the highest rate: no rate was tried");
  return { ...shown, steps, seconds };

  async function tryRate(perSecond: number): Promise<{ step: RateStep; measurement: Omit<Measurement, "path"> }> {
    const { planned, ...measurement } = await claimAtRate(context, {
      ...{ perSecond, seconds, name: `ladder-${steps.length}`, signal },
      // After so many late responses, the p99 is beyond the limit, and further claims would only pile up.
      isOver: (samplesMs, all) => samplesMs.filter((ms) => ms > LIMIT_MS).length > all / 100,
    });
    const { samplesMs, missed } = measurement;
    const failed = samplesMs.filter((ms) => ms === Number.POSITIVE_INFINITY).length;
    const p99Ms = percentile(
      samplesMs.toSorted((a, b) => a - b),
      0.99,
    );
    const held = p99Ms <= LIMIT_MS && failed === 0 && missed === 0;
    const step = { perSecond, planned, sent: samplesMs.length, p99Ms: finite(p99Ms), failed, missed, held };
    return { step, measurement };
  }
}

function describe({ perSecond, planned, sent, p99Ms, failed, missed, held }: RateStep): string {
  const remarks = [
    `${held ? "held" : "not held"}, p99 ${p99Ms === null ? "failed" : `${p99Ms.toFixed(0)} ms`}`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(missed > 0 ? [`${missed} not from the pool`] : []),
    ...(sent < planned ? [`given up after ${sent} of ${planned} claims`] : []),
  ];
  return `${perSecond}/s: ${remarks.join(", ")}`;
}
