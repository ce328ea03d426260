import { setMaxListeners } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../cluster/log.ts";
import { pause } from "../cluster/process/wait-until.ts";
import type { Violation } from "./checker.ts";
import { decisionsOf } from "./decisions.ts";
import { endFaults, FAULT_PARTS, makeFaults } from "./faults/faults.ts";
import { moveFences } from "./faults/fences.ts";
import type { SoakOptions } from "./options.ts";
import { settle } from "./settle.ts";
import { createTenant, type Tenant } from "./tenants.ts";
import { type Counts, createCounts, startTrace } from "./trace.ts";
import { startWorld, type World } from "./world.ts";

export interface SoakResult {
  readonly violations: readonly Violation[];
  /** An error of the soak itself. */
  readonly trouble: readonly string[];
  /** A summary of the run in words. */
  readonly summary: string;
  /** The folder with all events and the logs of the programs; undefined if it was not kept. */
  readonly traceFolder: string | undefined;
}

export type RandomSoakOptions = Pick<
  SoakOptions,
  "seed" | "minutes" | "keepGoing" | "tree" | "isContainers" | "traceFolder"
>;

/** The time limits of a round: until faults end, until everything is at rest, and until every tenant has its files. */
const ROUND_MS: readonly [number, number] = [35_000, 60_000];
const PROGRESS_EVERY_MS = 5000;

/**
 * Runs rounds of faults until the time is over, but at least one. Stops at the first violation, unless set to keep
 * going.
 */
export async function runSoak(options: RandomSoakOptions & { log: Log; signal: AbortSignal }): Promise<SoakResult> {
  const { seed, minutes, keepGoing, tree, isContainers, log } = options;
  const traceFolder = options.traceFolder ?? join(tmpdir(), `tenancy-soak-${seed}-${process.pid}`);
  const trace = startTrace(traceFolder);
  const counts = createCounts();
  const stopping = new AbortController();
  const signal = AbortSignal.any([options.signal, stopping.signal]);
  const violations: Violation[] = [];
  const trouble: string[] = [];
  const startedAt = performance.now();
  const seconds = (): string => ((performance.now() - startedAt) / 1000).toFixed(0).padStart(4);

  function onViolation(violation: Violation): void {
    violations.push(violation);
    log(`${seconds()} s VIOLATION of "${violation.invariant}": ${violation.message}`);
    if (!keepGoing) stopping.abort();
  }
  function onTrouble(error: unknown): void {
    if (signal.aborted) return;
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    trouble.push(text);
    log(`${seconds()} s TROUBLE of the soak itself: ${text}`);
    stopping.abort();
  }

  let world: World | undefined;
  try {
    log(`seed ${seed}, ${minutes} minutes, programs of ${tree}`);
    world = await startWorld({
      ...{ tree, isContainers, seed, trace, counts, onViolation, onTrouble },
      log: () => undefined,
    });
    const { edgeUrls, api, pods, checker, history } = world;
    const shared = { seed, edgeUrls, api, pods, checker, history, trace, counts };
    const tenants = world.cluster.pairs.map((pair) => createTenant({ ...shared, pair }));
    const progress = setInterval(() => log(progressLine(seconds(), counts, checker.checks())), PROGRESS_EVERY_MS);
    try {
      const endsAt = performance.now() + minutes * 60_000;
      for (let round = 0; (round === 0 || performance.now() < endsAt) && !signal.aborted; round += 1)
        await runRound(round, { world, tenants, endsAt });
    } finally {
      clearInterval(progress);
    }
    const summary = summaryOf({ counts, seconds: seconds().trim(), seed, world, violations });
    return { violations, trouble, summary, traceFolder: keptTrace() };
  } finally {
    await world?.stop();
    trace.close(keptTrace() !== undefined);
  }

  function keptTrace(): string | undefined {
    return options.traceFolder !== undefined || violations.length > 0 || trouble.length > 0 ? traceFolder : undefined;
  }

  async function runRound(
    round: number,
    { world, tenants, endsAt }: { world: World; tenants: readonly Tenant[]; endsAt: number },
  ): Promise<void> {
    counts.add("rounds");
    trace.note("round", [], { round });
    const decisions = decisionsOf(seed, `round ${round}`);
    const over = new AbortController();
    const roundSignal = AbortSignal.any([signal, over.signal]);
    // Each tenant and each part of the faults adds a listener.
    setMaxListeners(0, signal, roundSignal);
    const guard = (work: Promise<void>): Promise<void> => work.catch(onTrouble);
    const { edgeUrls, api, checker } = world;
    const [edgeUrl = ""] = edgeUrls;
    const { mustRestMs } = world.cluster;
    const living = [
      ...tenants.map((tenant) => guard(tenant.live(roundSignal))),
      guard(
        moveFences({ edgeUrl, api, checker, decisions: decisionsOf(seed, `fences ${round}`), signal: roundSignal }),
      ),
    ];
    // Tenants start before the first fault.
    await pause(2000, signal);
    const faulting = Object.keys(FAULT_PARTS).map((part) =>
      guard(
        makeFaults(part, { targets: world, decisions: decisionsOf(seed, `${part} ${round}`), signal: roundSignal }),
      ),
    );
    const left = Math.max(10_000, endsAt - performance.now());
    await pause(Math.min(left, decisions.between(...ROUND_MS)), signal);
    over.abort();
    await Promise.all(faulting);
    await guard(endFaults(world));
    await Promise.all(living);
    if (signal.aborted) return;
    trace.note("quiet", []);
    const rest = await settle({ api, checker, mustRestMs, signal });
    if (rest.isLate) log(`${seconds()} s note: at rest only ${(rest.ms / 1000).toFixed(0)} s after the last fault`);
    counts.add("seconds to rest", rest.ms / 1000);
    await guard(world.untilServing());
    await Promise.all(tenants.map((tenant) => guard(tenant.comeBack(signal))));
    if (!signal.aborted) await settle({ api, checker, mustRestMs, signal });
    if (!signal.aborted) await checkQuiet(world, signal);
  }
}

const QUIET_MS = 5000;
/** The writes that are allowed at rest: a status may be written some seconds late, together with others. */
const QUIET_WRITES = 3;

/** Checks that operator and edge do not write to the API server at rest. */
async function checkQuiet({ operators, edges, checker }: World, signal: AbortSignal): Promise<void> {
  const proxies = [...operators, ...edges].map(({ proxy }) => proxy);
  const before = proxies.map((proxy) => proxy.writes());
  await pause(QUIET_MS, signal);
  for (const [index, proxy] of proxies.entries()) {
    const count = proxy.writes() - (before[index] ?? 0);
    if (count <= QUIET_WRITES || signal.aborted) continue;
    const written = proxy.lastWrites(count).join(", ");
    const message = `${proxy.name} wrote ${count} times in ${QUIET_MS / 1000} s while nothing happened: ${written}`;
    checker.violate("rest is quiet", message, [proxy.name]);
  }
}

function progressLine(seconds: string, counts: Counts, checks: number): string {
  const faults = counts.startingWith("fault ").reduce((sum, [, times]) => sum + times, 0);
  const figure = (name: string): string => `${counts.get(name)} ${name}`;
  return `${seconds} s round ${counts.get("rounds")}: ${figure("sequences")}, ${figure("claims")}, ${figure("releases")}, ${faults} faults, ${checks} checks`;
}

function summaryOf(run: {
  counts: Counts;
  seconds: string;
  seed: number;
  world: World;
  violations: readonly Violation[];
}): string {
  const { counts, world } = run;
  const list = (found: readonly [string, number][]): string => found.map(([what, n]) => `${what} ${n}`).join(", ");
  const faults = counts.startingWith("fault ");
  const proxies = [...world.operators, ...world.edges].map(({ proxy }) => proxy);
  const hits = new Map<string, number>();
  for (const { hits: own } of proxies) for (const [what, n] of own) hits.set(what, (hits.get(what) ?? 0) + n);
  const rest = counts.get("seconds to rest") / Math.max(1, counts.get("rounds"));
  const { saved, restored, checkpoints, goneOn } = world.checker.files();
  const broken = new Map<string, number>();
  for (const { invariant } of run.violations) broken.set(invariant, (broken.get(invariant) ?? 0) + 1);
  return [
    `seed ${run.seed}, snapshots ${world.objects === undefined ? "on the volume" : "in object storage"}, ${run.seconds} s, ${counts.get("rounds")} rounds, at rest ${rest.toFixed(1)} s after each on average`,
    `${counts.get("sequences")} sequences, ${counts.get("claims")} claims, ${counts.get("releases")} releases, ${counts.get("destroys")} destroys, ${counts.get("execs")} execs, ${counts.get("inputs seen")} inputs seen, ${counts.get("tokens written")} tokens written`,
    `${faults.reduce((sum, [, n]) => sum + n, 0)} faults: ${list(faults)}`,
    `requests hit: ${list([...hits].sort())}`,
    `answers of the edge: ${list(counts.startingWith("answers "))}`,
    `${saved} saves and ${restored} restores of files seen; ${checkpoints} checkpoints saved, and ${goneOn} restored after the loss of a pod`,
    `${world.checker.pods.size} pods, ${world.checker.claims.size} claim objects, ${world.checker.checks()} checks, ${run.violations.length} violations${broken.size > 0 ? `: ${list([...broken])}` : ""}`,
  ].join("\n");
}
