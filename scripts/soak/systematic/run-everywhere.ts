import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../../cluster/log.ts";
import { undoAll } from "../../cluster/process/undo-all.ts";
import { waitUntil } from "../../cluster/process/wait-until.ts";
import type { Violation } from "../checker.ts";
import { NAMESPACE } from "../objects.ts";
import { type OperatedCluster, startOperators } from "../operators.ts";
import { settle } from "../settle.ts";
import { startTrace } from "../trace.ts";
import { diffOf, REST_LIMIT_MS, readState, restingState } from "./end-state.ts";
import { type Difference, indented, type SystematicReport } from "./report.ts";
import { createScene } from "./scene.ts";
import { STORIES, type Story } from "./stories.ts";
import { createTap, type Disturbance, EVENT_KINDS, type Traffic } from "./tap.ts";

export interface EverywhereOptions {
  /** Names of stories; without them, all. */
  readonly stories?: readonly string[] | undefined;
  /** One disturbance, as a report names it; without it, all. */
  readonly at?: string | undefined;
  /** Which disturbances of a story's list are made; without it, all. */
  readonly sample?: ((at: string, index: number) => boolean) | undefined;
  readonly tree: string;
  readonly keepGoing: boolean;
  readonly traceFolder: string | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** The soak's even seeds keep snapshots on the volume, whose archives are looked at. */
const SEED = 0;
/** For how long nothing passes at the end of an undisturbed run, and of a disturbed one in the same state. */
const QUIET_MS = { undisturbed: 2500, disturbed: 800 };
const LEASE_PATH = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/tenancy-operator`;
const MERGE = "application/merge-patch+json";

/**
 * Runs each story undisturbed, and then once for each write of the operator and three times for each watch event that
 * it got, with a disturbance there. Each run must end in the state of the undisturbed one.
 */
export async function runEverywhere(options: EverywhereOptions): Promise<SystematicReport> {
  const { tree, log, signal, at } = options;
  const startedAt = performance.now();
  const undo: (() => unknown)[] = [];
  const traceFolder = options.traceFolder ?? join(tmpdir(), `tenancy-everywhere-${process.pid}`);
  const trace = startTrace(traceFolder);
  const violations: Violation[] = [];
  const trouble: unknown[] = [];
  const differences: Difference[] = [];
  const missed: string[] = [];
  const totals = { stories: 0, writes: 0, events: 0, runs: 0 };
  let count = 0;
  try {
    const stories = STORIES.filter(({ name }) => options.stories?.includes(name) ?? true);
    if (stories.length === 0) throw new Error(`Cannot find that story: ${STORIES.map(({ name }) => name).join(", ")}`);
    const onTrouble = (error: unknown): void => void trouble.push(error);
    const tap = createTap({
      async crash() {
        const program = operated.operators[0]?.program;
        await program?.kill();
        return async () => {
          // As an operator gives it back that ends by itself; the next one need not wait for it to run out.
          const body = { spec: { holderIdentity: "" } };
          await operated.api.call({ method: "PATCH", path: LEASE_PATH, body, contentType: MERGE });
          await program?.start();
          await untilLed();
        };
      },
      hold: (plural, isHeld) => operated.operators[0]?.proxy.delayWatches(plural, isHeld ? 3_600_000 : 0),
      relist: (plural) => operated.operators[0]?.proxy.expireWatches(plural),
      onTrouble,
    });
    const operated: OperatedCluster = await startOperators({
      ...{ tree, isContainers: false, seed: SEED, trace, tap, onTrouble, names: ["operator-1"] },
      // A busy machine may not renew a short lease in time, and a term that ends is a disturbance of its own.
      environment: { TENANCY_LEASE_SECONDS: "15" },
      onViolation: (violation) => void violations.push(violation),
      onStop: (step) => undo.push(step),
      log: () => undefined,
    });
    const { api, pods, checker, history, cluster } = operated;
    const source = { api, pods, volume: cluster.volume };
    await untilLed();
    for (const story of stories) {
      await runStory(story);
      if (signal.aborted || (differences.length > 0 && !options.keepGoing)) break;
    }
    const seconds = (performance.now() - startedAt) / 1000;
    const keptTrace = options.traceFolder !== undefined || differences.length > 0 ? traceFolder : undefined;
    return { counts: totals, left: missed, seconds, differences, traceFolder: keptTrace };

    async function untilLed(): Promise<void> {
      const isLed = async (): Promise<boolean> => {
        const { text } = await api.call({ method: "GET", path: LEASE_PATH });
        return Boolean((JSON.parse(text) as { spec?: { holderIdentity?: string } }).spec?.holderIdentity);
      };
      await waitUntil(isLed, { what: "an operator to lead", limitMs: REST_LIMIT_MS, signal });
    }

    async function runStory(story: Story): Promise<void> {
      const { traffic, state: expected, pods: fewest } = await runOnce(story);
      const all = disturbancesOf(traffic);
      const chosen = all.filter((one, index) =>
        at === undefined ? (options.sample?.(atOf(one), index) ?? true) : atOf(one) === at,
      );
      if (at !== undefined && chosen.length === 0) chosen.push(disturbanceOf(at));
      totals.stories += 1;
      totals.writes += traffic.writes.length;
      totals.events += traffic.events.length;
      log(`${story.name}: ${traffic.writes.length} writes, ${traffic.events.length} events, ${chosen.length} runs`);
      for (const [index, disturbance] of chosen.entries()) {
        if (signal.aborted) return;
        const label = atOf(disturbance);
        const began = performance.now();
        const run = await runOnce(story, { disturbance, expected });
        totals.runs += 1;
        if (!run.traffic.isHit) missed.push(`${story.name}: ${label} did not happen again`);
        const seconds = ((performance.now() - began) / 1000).toFixed(1);
        const notes = [
          `${seconds} s`,
          ...(run.traffic.isHit ? [] : ["did not happen"]),
          ...(run.pods > fewest ? [`${run.pods - fewest} more pods`] : []),
        ];
        log(`  ${index + 1} of ${chosen.length}: ${label}, ${notes.join(", ")}`);
        if (run.lines.length === 0) continue;
        const again = `--crash-everywhere --story "${story.name}" --at "${label}"`;
        differences.push({ again, lines: run.lines });
        log(`  DIFFERENT: ${again}\n${indented(run.lines)}`);
        if (!options.keepGoing) return;
      }
    }

    /** Runs a story once and cleans up. The lines say how its end differs from the expected one. */
    async function runOnce(
      story: Story,
      given?: { disturbance: Disturbance; expected: readonly string[] },
    ): Promise<{ traffic: Traffic; state: readonly string[]; lines: readonly string[]; pods: number }> {
      count += 1;
      const run = `run${count}x`;
      const scene = createScene(run, operated);
      const before = violations.length;
      trace.note("run", [run], { story: story.name, disturbance: given?.disturbance });
      tap.follow("");
      await story.before(scene);
      const traffic = tap.follow(run, given?.disturbance);
      const mayDiffer = given?.disturbance.kind === "crash" ? story.afterCrash : undefined;
      const differing = (found: readonly string[]): string[] =>
        diffOf(given?.expected ?? found, found).filter((line) => !mayDiffer?.test(line));
      let state: string[] = [];
      const lines: string[] = [];
      try {
        await story.act(scene);
        await story.done(scene);
        const quietMs = given === undefined ? QUIET_MS.undisturbed : QUIET_MS.disturbed;
        state = await restingState({
          read: () => readState(run, source),
          isExpected: (found) => differing(found).length === 0,
          isAtRest: () => traffic.quietMs() > quietMs,
          signal,
        });
        trace.note("state", [run], { state });
        lines.push(...differing(state));
        if (given === undefined) await settle({ api, checker, mustRestMs: REST_LIMIT_MS, signal });
        tap.follow("");
        await scene.clear();
      } catch (error) {
        lines.push(error instanceof Error ? error.message : String(error));
        lines.push(...differing(await readState(run, source)));
        tap.follow("");
      }
      await history.upToNow();
      lines.push(...violations.slice(before).map(({ invariant, message }) => `! ${invariant}: ${message}`));
      lines.push(...trouble.splice(0).map((error) => `! ${error instanceof Error ? error.stack : error}`));
      if (given === undefined && lines.length > 0)
        throw new Error(`${story.name} fails without a disturbance:\n${lines.join("\n")}`);
      const ownPods = [...checker.pods.values()].filter(({ pod }) => pod.metadata.name.includes(run));
      return { traffic, state, lines, pods: ownPods.length };
    }
  } finally {
    await undoAll(undo);
    trace.close(options.traceFolder !== undefined || differences.length > 0);
  }
}

/** One for each write, and three for each event. */
function disturbancesOf({ writes, events }: Traffic): Disturbance[] {
  return [
    ...numbered(writes).map((one): Disturbance => ({ kind: "crash", ...one })),
    ...numbered(events).flatMap((one) => EVENT_KINDS.map((kind): Disturbance => ({ kind, ...one }))),
  ];
}

function numbered(list: readonly string[]): { what: string; nth: number }[] {
  return list.map((what, index) => ({ what, nth: list.slice(0, index + 1).filter((one) => one === what).length }));
}

function atOf({ kind, what, nth }: Disturbance): string {
  return `${kind} ${what} ${nth}`;
}

/** @throws Error where it is not as a report names it */
function disturbanceOf(at: string): Disturbance {
  const [, kind, what, nth] = /^(crash|late|twice|lost) (\w+ \S+) (\d+)$/.exec(at) ?? [];
  if (what === undefined) throw new Error(`--at: must be such as "crash PATCH pods 1", not "${at}"`);
  return { kind: kind as Disturbance["kind"], what, nth: Number(nth) };
}
