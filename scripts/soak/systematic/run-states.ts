import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ApiClient } from "../../cluster/kubernetes/api-client.ts";
import type { Log } from "../../cluster/log.ts";
import { undoAll } from "../../cluster/process/undo-all.ts";
import type { Violation } from "../checker.ts";
import { decisionsOf } from "../decisions.ts";
import { expect } from "../history.ts";
import { NAMESPACE, WORKLOADS_PATH } from "../objects.ts";
import { startOperators } from "../operators.ts";
import { startTrace } from "../trace.ts";
import { diffOf, readState, restingState } from "./end-state.ts";
import { type Difference, indented, type SystematicReport } from "./report.ts";
import { createScene, type Scene } from "./scene.ts";
import type { Field } from "./spec-values.ts";
import { FIELDS, type Specs, specsWith } from "./specs.ts";

export interface StatesOptions {
  readonly seed: number;
  /** Paths such as `workload.network.access`; without them, all. */
  readonly fields?: readonly string[] | undefined;
  readonly tree: string;
  readonly keepGoing: boolean;
  readonly traceFolder: string | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** What there is before and after a claim; the same twice where no pod can be had. */
type Observed = readonly [unclaimed: readonly string[], claimed: readonly string[]];

const REST_MS = { fresh: 1500, changed: 300 };
const LANES = 3;
/** Counts changes, which fresh objects have not had. */
const COUNTED = /observedGeneration/;

/**
 * Takes each field of a workload and of a pool from what it is without it to each of its values in turn and back, and
 * compares what the operator has made with what it makes of fresh objects with that spec.
 */
export async function runStates(options: StatesOptions): Promise<SystematicReport> {
  const { tree, log, seed } = options;
  const startedAt = performance.now();
  const undo: (() => unknown)[] = [];
  const traceFolder = options.traceFolder ?? join(tmpdir(), `tenancy-states-${process.pid}`);
  const trace = startTrace(traceFolder);
  const violations: Violation[] = [];
  const stopping = new AbortController();
  const signal = AbortSignal.any([options.signal, stopping.signal]);
  const differences: Difference[] = [];
  const refused: string[] = [];
  const totals = { fields: 0, values: 0, compared: 0 };
  const known = new Map<string, Promise<Observed>>();
  const repeated = `--states --seed ${seed}`;
  let count = 0;
  try {
    const decisions = decisionsOf(seed, "fields");
    const fields = FIELDS.filter(({ path }) => options.fields?.includes(path) ?? true);
    if (fields.length === 0) throw new Error(`Cannot find that field: ${FIELDS.map(({ path }) => path).join(", ")}`);
    const onTrouble = (error: unknown): void => {
      differences.push({ again: repeated, lines: [error instanceof Error ? `${error.stack}` : `${error}`] });
      stopping.abort();
    };
    const operated = await startOperators({
      ...{ tree, isContainers: false, seed: 0, trace, onTrouble, names: ["operator-1"], log: () => undefined },
      environment: { TENANCY_LEASE_SECONDS: "15" },
      onViolation: (violation) => void violations.push(violation),
      onStop: (step) => undo.push(step),
    });
    const { api } = operated;
    const source = { api, pods: operated.pods, volume: undefined };
    await makeNamed(api, fields);
    const queue = shuffled(fields, decisions.number);
    await Promise.all(Array.from({ length: LANES }, () => lane()));
    for (const { invariant, message } of violations)
      differences.push({ again: repeated, lines: [`! ${invariant}: ${message}`] });
    const seconds = (performance.now() - startedAt) / 1000;
    const isKept = options.traceFolder !== undefined || differences.length > 0;
    return { counts: totals, left: refused, seconds, differences, traceFolder: isKept ? traceFolder : undefined };

    async function lane(): Promise<void> {
      for (let field = queue.pop(); field !== undefined && !signal.aborted; field = queue.pop()) {
        const began = performance.now();
        const lines = await move(field);
        if (signal.aborted) return;
        totals.fields += 1;
        const seconds = ((performance.now() - began) / 1000).toFixed(1);
        log(`${totals.fields} of ${fields.length}: ${field.path}, ${seconds} s`);
        if (lines.length === 0) continue;
        const again = `${repeated} --field ${field.path}`;
        differences.push({ again, lines });
        log(`  DIFFERENT: ${again}\n${indented(lines)}`);
        if (!options.keepGoing) stopping.abort();
      }
    }

    /** Moves a field through its values and back. The lines say where its way mattered. */
    async function move(field: Field): Promise<string[]> {
      const { path, values } = field;
      const start = specsWith(field);
      const chain: { what: string; specs: Specs }[] = [];
      for (const value of shuffled(values, decisions.number)) {
        const [what, specs] = [`${path}: ${JSON.stringify(value).slice(0, 60)}`, specsWith(field, value)];
        totals.values += 1;
        const refusal = await refusalOf(api, specs);
        if (refusal === undefined) chain.push({ what, specs });
        else refused.push(`${what}: ${refusal}`);
      }
      chain.push({ what: `${path} as it was`, specs: start });
      const run = nextRun();
      const scene = createScene(run, operated);
      await observe(run, { scene, specs: start });
      const lines: string[] = [];
      for (const { what, specs } of chain) {
        if (signal.aborted) return lines;
        const expected = await fresh(specs);
        const found = await observe(run, { scene, specs, expected });
        const differs = found.flatMap((state, index) => diffOf(expected[index] ?? [], state));
        totals.compared += 1;
        if (differs.length > 0) lines.push(`after ${what}`, ...differs);
      }
      await scene.clear();
      return lines;
    }

    /** What the operator makes of objects that never had another spec. */
    function fresh(specs: Specs): Promise<Observed> {
      const key = JSON.stringify(specs);
      const run = nextRun();
      const scene = createScene(run, operated);
      const found =
        known.get(key) ??
        observe(run, { scene, specs }).then(async (observed) => {
          await scene.clear();
          return observed;
        });
      known.set(key, found);
      return found;
    }

    /** Gives the objects their specs, waits until they are at rest, and claims where there are pods. */
    async function observe(
      run: string,
      { scene, specs, expected }: { scene: Scene; specs: Specs; expected?: Observed },
    ): Promise<Observed> {
      const { size, ...pool } = specs.pool;
      const read = async (): Promise<string[]> => (await readState(run, source)).filter((line) => !COUNTED.test(line));
      const isAtRest = (unchangedMs: number): boolean =>
        unchangedMs > (expected === undefined ? REST_MS.fresh : REST_MS.changed);
      const rest = async (state: readonly string[] | undefined): Promise<string[]> => {
        const isExpected = (found: readonly string[]): boolean => diffOf(state ?? found, found).length === 0;
        const found = await restingState({ read, isExpected, isAtRest, signal });
        trace.note("state", [run], { specs, state: found });
        return found;
      };
      // Without resources where the spec has none, which the scene would add.
      await scene.workload({ resources: undefined, ...specs.workload });
      await scene.pool(size, pool);
      const isServed = await scene.observed();
      if (isServed) await scene.poolReady(size);
      const unclaimed = await rest(expected?.[0]);
      if (!isServed) return [unclaimed, unclaimed];
      // A tenant of its own, since each release saves files.
      await scene.claim({ tenantId: nextRun() });
      await scene.active();
      await scene.poolReady(size);
      const claimed = await rest(expected?.[1]);
      await scene.release();
      await scene.released();
      return [unclaimed, claimed];
    }

    function nextRun(): string {
      count += 1;
      return `run${count}x`;
    }
  } finally {
    await undoAll(undo);
    trace.close(options.traceFolder !== undefined || differences.length > 0);
  }
}

/** Why the API server does not take a workload; undefined where it does. */
async function refusalOf(api: ApiClient, { workload }: Specs): Promise<string | undefined> {
  const metadata = { name: "tried" };
  const body = { apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyWorkload", metadata, spec: workload };
  const { status, text } = await api.call({ method: "POST", path: `${WORKLOADS_PATH}?dryRun=All`, body });
  return status < 300 ? undefined : `${status} ${text.slice(0, 200)}`;
}

/** Makes the Secrets and RuntimeClasses that values name. */
async function makeNamed(api: ApiClient, fields: readonly Field[]): Promise<void> {
  const secrets = new Map<string, string>();
  for (const { values } of fields) {
    for (const [, name = "", key = ""] of JSON.stringify(values).matchAll(
      /"secretKeyRef":\{"name":"([^"]+)","key":"([^"]+)"/g,
    ))
      secrets.set(name, key);
  }
  for (const [name, key] of secrets)
    await expect(api, "POST", `/api/v1/namespaces/${NAMESPACE}/secrets`, {
      metadata: { name },
      stringData: { [key]: "x" },
    });
  const classes = fields.find(({ path }) => path === "workload.runtimeClassName")?.values ?? [];
  for (const name of classes)
    await expect(api, "POST", "/apis/node.k8s.io/v1/runtimeclasses", { metadata: { name }, handler: "soak" });
}

/** A copy in an order by chance. */
function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const left = [...list];
  return list.map(() => left.splice(Math.floor(random() * left.length), 1)[0] as T);
}
