import { percentile } from "../stats/percentile.ts";
import type { Measurement } from "./measurement.ts";
import type { Row } from "./row.ts";

/** Requests to the API server that one claim costs. */
export interface RequestsPerClaim {
  readonly writes: number;
  readonly reads: number;
}

/**
 * Makes a row of a measurement. A failed claim ranks behind every answered one, so that failing fast never betters a percentile.
 *
 * @param requests what a claim of the path costs, where that was counted
 */
export function summarise(measurement: Measurement, requests?: RequestsPerClaim): Row {
  const { path, samplesMs, floorMs = [], missed, usage, perSecond, note, failures } = measurement;
  const sorted = samplesMs.toSorted((a, b) => a - b);
  const sortedFloor = floorMs.toSorted((a, b) => a - b);
  const at = (share: number): number => (sorted.length === 0 ? Number.NaN : percentile(sorted, share));
  const floorP50 = sortedFloor.length === 0 ? Number.NaN : percentile(sortedFloor, 0.5);
  const failed = samplesMs.filter((ms) => ms === Number.POSITIVE_INFINITY).length;
  const whole = measurement.whole ?? { n: samplesMs.length, failed };
  const cpu = Object.entries(usage ?? {}).map(([program, used]) => [program, finite(used.cpuMs / whole.n)] as const);
  const cpuOf = (program: string) => cpu.find(([name]) => name === program)?.[1] ?? null;
  return {
    path,
    ...whole,
    p50Ms: finite(at(0.5)),
    p95Ms: finite(at(0.95)),
    p99Ms: finite(at(0.99)),
    maxMs: finite(at(1)),
    floorP50Ms: finite(floorP50),
    ratioP50: finite(at(0.5) / floorP50),
    writesPerClaim: requests?.writes ?? null,
    readsPerClaim: requests?.reads ?? null,
    missed,
    perSecond: finite(perSecond ?? Number.NaN),
    operatorCpuMsPerClaim: cpuOf("operator"),
    edgeCpuMsPerClaim: cpuOf("edge"),
    othersCpuShare: finite(measurement.machine?.others ?? Number.NaN),
    idleCpuShare: finite(measurement.machine?.idle ?? Number.NaN),
    ...(note !== undefined && { note }),
    ...(Object.keys(failures).length > 0 && { failures }),
    ...(cpu.length > 0 && { cpuMsPerClaim: Object.fromEntries(cpu.map(([name, ms]) => [name, ms ?? 0])) }),
    samplesMs: samplesMs.map(finite),
    ...(floorMs.length > 0 && { floorSamplesMs: floorMs.map(finite) }),
  };
}

/** To a microsecond; null where JSON could not hold it. */
function finite(value: number): number | null {
  return Number.isFinite(value) ? Math.round(value * 1000) / 1000 : null;
}
