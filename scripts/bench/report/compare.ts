import { readFileSync } from "node:fs";
import { Type } from "@sinclair/typebox";
import { plainSchema } from "../../../crds/schema/schema.ts";
import { schemaProblems } from "../../../crds/schema/schema-problems.ts";
import { seededRandom } from "../load/open-loop.ts";
import type { BenchReport, ScaleSize } from "./bench-report.ts";
import { FINEST_STEP } from "./measurement.ts";
import { percentile, type Row } from "./summarise.ts";
import { alignColumns, figure, OURS } from "./table.ts";

/** One figure of two reports. */
export interface Comparison {
  readonly path: string;
  readonly name: string;
  /** Null if too many claims failed. */
  readonly a: number | null;
  readonly b: number | null;
  /** The ratio of B to A. */
  readonly ratio: number | null;
  /** The interval with the ratios of 95 in 100 resamplings of both; only for figures with samples. */
  readonly interval: readonly [number, number] | undefined;
  readonly verdict: "better" | "worse" | "within noise";
}

/** A figure of both reports before the comparison. */
type Pair = Pick<Comparison, "name" | "a" | "b"> & {
  readonly interval?: readonly [number, number] | undefined;
  /** How much single figures of the same commit may differ. */
  readonly tolerance?: number;
  readonly moreIsBetter?: boolean;
};

/**
 * Compares the figures that two reports both have.
 *
 * @throws Error if the two were measured in such different ways that ratios mean nothing
 */
export function compareReports(a: BenchReport, b: BenchReport): Comparison[] {
  const ways = [
    ["seed", a.seed, b.seed],
    ["quick", a.quick, b.quick],
    ["cores", a.machine.cores, b.machine.cores],
  ] as const;
  const differing = ways.filter(([, ofA, ofB]) => ofA !== ofB).map(([name, ofA, ofB]) => `${name} ${ofA} and ${ofB}`);
  if (differing.length > 0) throw new Error(`Cannot compare: the reports have ${differing.join(", ")}`);
  const rows = a.rows.flatMap((rowA) => b.rows.filter(({ path }) => path === rowA.path).map((rowB) => [rowA, rowB]));
  const compared = [
    ...(rows as [Row, Row][]).flatMap(([rowA, rowB]) => pairsOfRows(rowA, rowB).map((pair) => judge(rowA.path, pair))),
    ...sizesOfBoth(a, b).flatMap(([ofA, ofB]) =>
      pairsOfScale(ofA, ofB).map((pair) => judge(`scale ${ofA.standing.pods}`, pair)),
    ),
  ];
  if (compared.length === 0) throw new Error("Cannot compare: the reports have no path in common");
  return compared;
}

const SHARES = [0.5, 0.95, 0.99];
const COUNTS_TOLERANCE = 0.01;
const SINGLES_TOLERANCE = 0.05;

function pairsOfRows(a: Row, b: Row): Pair[] {
  const [p50, p95, p99] = ratioIntervals(a.samplesMs, b.samplesMs, SHARES);
  const [floorP50] = ratioIntervals(a.floorSamplesMs ?? [], b.floorSamplesMs ?? [], [0.5]);
  const programs = Object.keys({ ...a.cpuMsPerClaim, ...b.cpuMsPerClaim });
  const times: Pair[] = [
    { name: "p50 ms", a: a.p50Ms, b: b.p50Ms, interval: p50 },
    { name: "p95 ms", a: a.p95Ms, b: b.p95Ms, interval: p95 },
    { name: "p99 ms", a: a.p99Ms, b: b.p99Ms, interval: p99 },
  ];
  const isSearch = a.steps !== undefined && a.perSecond !== null && b.perSecond !== null;
  const pairs: Pair[] = [
    // The highest rate is found to within a step, and times at two rates have nothing to do with each other.
    ...(isSearch && a.perSecond !== b.perSecond ? [] : times),
    { name: "floor p50 ms", a: a.floorP50Ms, b: b.floorP50Ms, interval: floorP50 },
    {
      name: "per s",
      ...{ a: a.perSecond, b: b.perSecond, moreIsBetter: true },
      ...(isSearch && { tolerance: FINEST_STEP / Math.min(a.perSecond ?? 0, b.perSecond ?? 0) }),
    },
    { name: "writes", a: a.writesPerClaim, b: b.writesPerClaim, tolerance: COUNTS_TOLERANCE },
    { name: "reads", a: a.readsPerClaim, b: b.readsPerClaim, tolerance: COUNTS_TOLERANCE },
    {
      name: "writes with refill",
      ...{ a: a.writesWithRefill ?? null, b: b.writesWithRefill ?? null, tolerance: COUNTS_TOLERANCE },
    },
    { name: "watch events", a: a.server?.watchEvents ?? null, b: b.server?.watchEvents ?? null },
    { name: "watch KiB", a: a.server?.watchKb ?? null, b: b.server?.watchKb ?? null },
    ...programs.map((name) => ({ name: `CPU ms ${name}`, a: of(a.cpuMsPerClaim, name), b: of(b.cpuMsPerClaim, name) })),
    { name: "CPU ms all", a: sum(a.cpuMsPerClaim), b: sum(b.cpuMsPerClaim) },
    ...OURS.map((name) => ({ name: `MiB ${name}`, a: of(a.rssMb, name), b: of(b.rssMb, name) })),
  ];
  // A percentile that is null lies among failed claims. Other figures that are null do not exist.
  return pairs.filter(({ name, a, b }) => (a !== null && b !== null) || /^p\d/.test(name));
}

/** The sizes that both reports have. A report of another commit may have none. */
function sizesOfBoth(a: BenchReport, b: BenchReport): [ScaleSize, ScaleSize][] {
  return (a.scale?.sizes ?? []).flatMap((ofA) => {
    const ofB = b.scale?.sizes?.find(({ standing }) => standing.pods === ofA.standing.pods);
    return ofB === undefined ? [] : [[ofA, ofB] as [ScaleSize, ScaleSize]];
  });
}

/** The figures of one size. Three restarts are too few to resample, so their interval is that of the extreme ratios. */
function pairsOfScale(a: ScaleSize, b: ScaleSize): Pair[] {
  const [samplesA, samplesB] = [a.restartSamplesMs, b.restartSamplesMs];
  return [
    ...Object.entries(a.figures).map(([name, figure]) => ({ name, a: figure, b: b.figures[name] ?? null })),
    {
      name: "operator: restart ms",
      ...{ a: Math.max(...samplesA), b: Math.max(...samplesB) },
      interval: [Math.min(...samplesB) / Math.max(...samplesA), Math.max(...samplesB) / Math.min(...samplesA)] as const,
    },
  ].filter((pair) => pair.a !== null && pair.b !== null);
}

function of(figures: Readonly<Record<string, number>> | undefined, name: string): number | null {
  return figures?.[name] ?? null;
}

function sum(figures: Readonly<Record<string, number>> | undefined): number | null {
  return figures === undefined ? null : Object.values(figures).reduce((total, one) => total + one, 0);
}

function judge(path: string, { name, a, b, interval, tolerance = SINGLES_TOLERANCE, moreIsBetter }: Pair): Comparison {
  const worth = (value: number | null) => value ?? Number.POSITIVE_INFINITY;
  const ratio = a === null || b === null ? null : a === b ? 1 : b / a;
  const [low, high] = interval ?? [(ratio ?? 1) / (1 + tolerance), (ratio ?? 1) * (1 + tolerance)];
  const same = a === b || (ratio !== null && low <= 1 && high >= 1);
  const isLess = worth(b) < worth(a);
  const verdict = same ? "within noise" : isLess === (moreIsBetter === true) ? "worse" : "better";
  return { path, name, a, b, ratio, interval: ratio === null ? undefined : interval, verdict };
}

const RESAMPLINGS = 500;

/**
 * The interval with the ratio of a percentile of `b` to that of `a` in 95 of 100 resamplings, by a moving-block
 * bootstrap. It draws blocks of √n samples in the order sent, so that the late responses of a queue stay together.
 *
 * @param shares such as 0.99
 * @returns an interval per share; undefined without samples
 */
export function ratioIntervals(
  a: readonly (number | null)[],
  b: readonly (number | null)[],
  shares: readonly number[],
): ([number, number] | undefined)[] {
  if (a.length === 0 || b.length === 0) return shares.map(() => undefined);
  const random = seededRandom(1);
  const ratios = shares.map((): number[] => []);
  for (let count = 0; count < RESAMPLINGS; count++) {
    const [drawnA, drawnB] = [resample(a, random), resample(b, random)];
    for (const [index, share] of shares.entries()) {
      // Two infinite times are equal.
      const [ofA, ofB] = [percentile(drawnA, share), percentile(drawnB, share)];
      ratios[index]?.push(ofA === ofB ? 1 : ofB / ofA);
    }
  }
  return ratios.map((found) => {
    const sorted = found.sort((x, y) => x - y);
    return [percentile(sorted, 0.025), percentile(sorted, 0.975)];
  });
}

/** A resampling of the same number of samples, in ascending order. */
function resample(samples: readonly (number | null)[], random: () => number): Float64Array {
  const block = Math.round(Math.sqrt(samples.length));
  const drawn = new Float64Array(samples.length);
  for (let at = 0; at < drawn.length; at += block) {
    const from = Math.floor(random() * samples.length);
    for (let index = 0; index < block && at + index < drawn.length; index++) {
      drawn[at + index] = samples[(from + index) % samples.length] ?? Number.POSITIVE_INFINITY;
    }
  }
  return drawn.sort();
}

const MOST_FOR_OTHERS = 0.1;

const METHOD = `Ratios are B / A. A percentile is within noise while 1 lies in the interval that 95 in 100 resamplings of both
samples give (moving-block bootstrap, blocks of √n in the order sent); restarts while their ranges overlap; requests
while they differ by 1 % at most; single figures (CPU, memory, watches, per s) by 5 %. None of this sees what differs between
two runs as a whole, such as a busy neighbour: look at the floor, and measure A B A B.`;

/** Shows a comparison to people. */
export function renderComparison(a: BenchReport, b: BenchReport): string {
  const lines = compareReports(a, b).map(({ path, name, a, b, ratio, interval, verdict }) => [
    `${path} ${name}`,
    a === null ? "failed" : figure(a),
    b === null ? "failed" : figure(b),
    figure(ratio),
    interval === undefined ? "-" : interval.map(figure).join(" to "),
    verdict,
  ]);
  const heads = [a, b].map(({ commit, startedAt, machine, kubernetes }, index) => {
    const { cpu, cores, node, bun, loadBefore } = machine;
    return `${"AB"[index]}: commit ${commit.slice(0, 12)}${commit.endsWith("+") ? "+" : ""}, ${startedAt}, ${cores} cores (${cpu}), Kubernetes ${kubernetes}, Node ${node}, Bun ${bun}, load before ${loadBefore.toFixed(2)}`;
  });
  const disturbed = [a, b].flatMap(({ rows }, index) =>
    rows
      .filter(({ othersCpuShare: share }) => share !== null && share > MOST_FOR_OTHERS)
      .map(({ path, othersCpuShare }) => `${path} of ${"AB"[index]}: ${Math.round((othersCpuShare ?? 0) * 100)} %`),
  );
  const warning = `Other programs had the processors for more than 10 % of the time: ${disturbed.join(", ")}`;
  const table = alignColumns([["", "A", "B", "ratio", "95 %", ""], ...lines]);
  return [...heads, "", ...table, "", ...(disturbed.length > 0 ? [warning, ""] : []), METHOD].join("\n");
}

/** The fields that a comparison needs. Figures that a report of another commit does not have are omitted. */
const reportSchema = Type.Object({
  commit: Type.String(),
  startedAt: Type.String(),
  quick: Type.Boolean(),
  seed: Type.Integer(),
  kubernetes: Type.String(),
  machine: Type.Object({ cores: Type.Integer() }),
  rows: Type.Array(Type.Object({ path: Type.String(), samplesMs: Type.Array(Type.Unknown()) })),
});

/** Reads the output of `--json`. @throws Error that names the file and its fault */
export function readReport(path: string): BenchReport {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Error(`Cannot read ${path}: ${(error as Error).message}`, { cause: error });
  }
  const problems = schemaProblems({ value, schema: plainSchema(reportSchema), path }, { allowUnknownFields: true });
  if (problems.length > 0) throw new Error(`Cannot compare: no report of npm run bench: ${problems.join("; ")}`);
  return value as BenchReport;
}
