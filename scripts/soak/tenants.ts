import type { ApiClient } from "../cluster/kubernetes/api-client.ts";
import { pause } from "../cluster/process/wait-until.ts";
import type { Checker } from "./checker.ts";
import { EMPTY } from "./cluster/pod-files.ts";
import type { SoakPods } from "./cluster/soak-cluster.ts";
import { type Decisions, decisionsOf } from "./decisions.ts";
import { GUARDED } from "./faults/fences.ts";
import { FLEETING } from "./faults/people.ts";
import { expect, type History } from "./history.ts";
import { CLAIMS_PATH, type Claim, IDLE, INPUTS_FILE, type Pair, pairName, STARTED, TOLD } from "./objects.ts";
import type { Counts, Trace } from "./trace.ts";

/**
 * Ids that are hard to join, cut or compare: with equal claim names, upper case, dots, and the longest possible id.
 */
const TENANTS = { short: "a", joined: "a-b", upper: "Alice", lower: "alice", odd: "x_y", dotted: "A.b.C" };
const LONGEST = `t${"0".repeat(61)}Z`;

/** The tenants and the workloads that they claim. */
export const PAIRS: readonly Pair[] = [
  { tenantId: TENANTS.joined, workloadRef: "c" },
  { tenantId: TENANTS.short, workloadRef: "b-c" },
  { tenantId: TENANTS.upper, workloadRef: "c" },
  { tenantId: TENANTS.lower, workloadRef: "c" },
  { tenantId: LONGEST, workloadRef: "c" },
  { tenantId: TENANTS.odd, workloadRef: "b-c" },
  { tenantId: TENANTS.dotted, workloadRef: "cold" },
  { tenantId: TENANTS.upper, workloadRef: "cold" },
  { tenantId: TENANTS.lower, workloadRef: GUARDED },
  { tenantId: TENANTS.odd, workloadRef: GUARDED },
  { tenantId: TENANTS.short, workloadRef: IDLE },
  { tenantId: TENANTS.dotted, workloadRef: FLEETING },
  { tenantId: TENANTS.joined, workloadRef: TOLD },
  { tenantId: TENANTS.upper, workloadRef: TOLD },
  { tenantId: TENANTS.lower, workloadRef: STARTED },
];

export interface TenantOptions {
  pair: Pair;
  seed: number;
  edgeUrls: readonly string[];
  api: ApiClient;
  pods: SoakPods;
  checker: Checker;
  history: History;
  trace: Trace;
  counts: Counts;
}

/** A simulated tenant of one workload. It claims, writes, releases and comes back, one step after the other. */
export interface Tenant {
  readonly pair: Pair;
  /** Runs until the signal is aborted, and then finishes its step. */
  live(signal: AbortSignal): Promise<void>;
  /** Without faults, claims its files and releases again. @throws the error that prevents that */
  comeBack(signal: AbortSignal): Promise<void>;
}

/**
 * What a session does. It is decided before the session begins, so that events in the session do not change the
 * decisions of the next.
 */
interface Plan {
  readonly resume: boolean;
  readonly isDirect: boolean;
  readonly tries: number;
  readonly steps: readonly ("write" | "claim again" | "ask for files" | "destroy" | "exec" | "wait")[];
  readonly waitMs: number;
  readonly bytes: number;
  readonly end: "release" | "release and wait" | "delete" | "keep";
  readonly isGoneAwaited: boolean;
}

const CALL_LIMIT_MS = 45_000;
const GONE_LIMIT_MS = 60_000;

export function createTenant(options: TenantOptions): Tenant {
  const { pair, edgeUrls, api, pods, checker, history, trace, counts } = options;
  const { tenantId, workloadRef } = pair;
  const name = pairName(pair);
  const keepsFiles = ![GUARDED, FLEETING].includes(workloadRef);
  const ownInputs = [TOLD, STARTED].includes(workloadRef) ? { TOKEN: `of ${tenantId} on ${workloadRef}` } : undefined;
  const decisions = decisionsOf(options.seed, name);
  const edges = decisionsOf(options.seed, `edges of ${name}`);
  let written = 0;
  let made = 0;

  async function call(path: string, body: unknown, signal?: AbortSignal): Promise<{ status: number; json: Answer }> {
    const limit = AbortSignal.timeout(CALL_LIMIT_MS);
    try {
      const response = await fetch(`${edges.pick(edgeUrls)}/api/v1${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
      });
      const json = (await response.json()) as Answer;
      trace.note("call", [name], { path, body, status: response.status, answer: json });
      counts.add(`answers ${response.status}`);
      return { status: response.status, json };
    } catch (error) {
      // The edge was killed, or its response was lost: the result of the call is not known.
      trace.note("call failed", [name], { path, body, error: String(error) });
      counts.add("answers that did not come");
      return { status: 0, json: {} };
    }
  }

  /** Reads from the API server itself. */
  async function ownClaims(): Promise<Claim[]> {
    const { items } = JSON.parse(await expect(api, "GET", CLAIMS_PATH)) as { items: Claim[] };
    return items.filter(({ spec }) => spec.tenantId === tenantId && spec.workloadRef === workloadRef);
  }

  async function claim(resume: boolean): Promise<string | undefined> {
    counts.add("claims");
    const calledAtMs = Date.now();
    const body = { workload: workloadRef, resume, secrets: ownInputs };
    const { status, json } = await call(`/tenants/${tenantId}/claim`, body);
    if (status !== 201 || json.instanceId === undefined) return undefined;
    const { instanceId, endpoint } = json;
    await history.upToNow();
    const uid = podUid(instanceId);
    const content = uid === undefined ? undefined : pods.content(uid);
    if (uid !== undefined && content !== undefined) checker.found(uid, content);
    checker.answered(pair, { instanceId, host: endpoint?.host ?? "", resume, calledAtMs });
    await checkInputs(instanceId);
    return instanceId;
  }

  /** Creates a claim as kubectl does, and waits for its result. */
  async function claimDirectly(resume: boolean, signal: AbortSignal): Promise<string | undefined> {
    counts.add("claims");
    made += 1;
    const metadata = { name: `direct-${PAIRS.indexOf(pair)}-${made}` };
    const document = { apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyClaim", metadata };
    const inputs = ownInputs && { env: ownInputs };
    await expect(api, "POST", CLAIMS_PATH, { ...document, spec: { tenantId, workloadRef, resume, inputs } });
    const end = Date.now() + CALL_LIMIT_MS;
    while (Date.now() < end && !signal.aborted) {
      const own = (await ownClaims()).find((one) => one.metadata.name === metadata.name);
      if (own === undefined || own.status?.phase === "Error") return undefined;
      if (own.status?.phase === "Active") {
        await history.upToNow();
        if (own.status.instanceId !== undefined) await checkInputs(own.status.instanceId);
        return own.status.instanceId;
      }
      await pause(200, signal);
    }
    return undefined;
  }

  function podUid(instanceId: string): string | undefined {
    return [...checker.pods.values()].filter(({ pod }) => pod.metadata.name === instanceId).at(-1)?.pod.metadata.uid;
  }

  async function write(instanceId: string, bytes: number): Promise<void> {
    const uid = podUid(instanceId);
    if (!keepsFiles || uid === undefined) return;
    const isHeld = async (): Promise<boolean> =>
      (await ownClaims()).some(
        ({ metadata, status }) =>
          metadata.deletionTimestamp === undefined && status?.phase === "Active" && status.instanceId === instanceId,
      );
    if (!(await isHeld())) return;
    const content = pods.content(uid);
    if (content === undefined) return;
    checker.found(uid, content);
    written += 1;
    const token = `${tenantId}/${workloadRef}#${written}`;
    if (!pods.write(uid, token, bytes)) return;
    checker.writes(pair, uid, token);
    counts.add("tokens written");
    trace.note("wrote", [name, uid, instanceId], { token });
    // A save that began in the meantime may or may not contain it.
    if (!(await isHeld())) checker.excuse(uid, "written while its claim ended");
    checker.wrote(pair, uid, token);
  }

  async function exec(instanceId: string): Promise<void> {
    const command = ["/bin/busybox", "cat", "/data/token"];
    const { status, json } = await call(`/instances/${instanceId}/exec`, { command });
    if (status !== 200 || json.exitCode !== 0 || json.stdout === undefined) return;
    counts.add("execs");
    if (json.stdout.startsWith(`${tenantId}/${workloadRef}#`)) return;
    checker.violate("one tenant a pod", `exec for ${name} printed ${JSON.stringify(json.stdout)}`, [name, instanceId]);
  }

  /** An Active claim's program has what its own claim brings. */
  async function checkInputs(instanceId: string): Promise<void> {
    if (ownInputs === undefined) return;
    const command = ["/bin/busybox", "cat", INPUTS_FILE];
    const { status, json } = await call(`/instances/${instanceId}/exec`, { command });
    if (status !== 200) return;
    counts.add("inputs seen");
    // Of an API call, of a claim made directly, and as a variable.
    const { TOKEN } = ownInputs;
    if ([`{}${TOKEN}`, JSON.stringify(ownInputs), `${TOKEN}\n`].includes(json.stdout ?? "")) return;
    const { exitCode, stdout } = json;
    const found = JSON.stringify({ exitCode, stdout });
    checker.violate("own inputs", `the program of ${name} has ${found}`, [name, instanceId]);
  }

  async function destroy(instanceId: string): Promise<void> {
    const uid = podUid(instanceId);
    if (uid !== undefined) checker.excuse(uid, "destroyed by its tenant");
    counts.add("destroys");
    const { status } = await call(`/instances/${instanceId}/destroy`, {});
    if (status === 200 && uid !== undefined) checker.destroyed(uid);
  }

  async function release(how: Plan["end"]): Promise<void> {
    if (how === "keep") return;
    counts.add("releases");
    await checker.whileReleasing(pair, () => askForRelease(how));
  }

  async function askForRelease(how: Exclude<Plan["end"], "keep">): Promise<{ status: number } | undefined> {
    if (how === "delete") {
      for (const { metadata } of await ownClaims()) {
        const { status, text } = await api.call({ method: "DELETE", path: `${CLAIMS_PATH}/${metadata.name}` });
        if (status >= 300 && status !== 404) throw new Error(`Cannot delete ${metadata.name}: ${status} ${text}`);
      }
      trace.note("deleted its claims", [name]);
      return undefined;
    }
    const query = how === "release and wait" ? "?wait=true" : "";
    return call(`/tenants/${tenantId}/release${query}`, { workload: workloadRef });
  }

  async function untilGone(signal: AbortSignal): Promise<void> {
    const end = Date.now() + GONE_LIMIT_MS;
    while (Date.now() < end && !signal.aborted) {
      if ((await ownClaims()).length === 0) return;
      await pause(250, signal);
    }
  }

  async function session(plan: Plan, signal: AbortSignal): Promise<void> {
    counts.add("sequences");
    let instanceId: string | undefined;
    for (let tried = 0; tried < plan.tries && instanceId === undefined && !signal.aborted; tried += 1) {
      instanceId = await (plan.isDirect ? claimDirectly(plan.resume, signal) : claim(plan.resume));
      if (instanceId === undefined) await pause(500, signal);
    }
    if (instanceId !== undefined) await write(instanceId, plan.bytes);
    for (const step of plan.steps) {
      if (signal.aborted || instanceId === undefined) break;
      switch (step) {
        case "write":
          await write(instanceId, plan.bytes);
          break;
        case "claim again":
          instanceId = (await claim(plan.resume)) ?? instanceId;
          break;
        case "ask for files":
          instanceId = (await claim(true)) ?? instanceId;
          break;
        case "destroy":
          await destroy(instanceId);
          break;
        case "exec":
          if (keepsFiles) await exec(instanceId);
          break;
        case "wait":
          await pause(plan.waitMs, signal);
          break;
        default:
          step satisfies never;
      }
    }
    if (signal.aborted) return;
    await release(workloadRef === IDLE ? "keep" : plan.end);
    if (plan.isGoneAwaited && workloadRef !== IDLE) await untilGone(signal);
  }

  return {
    pair,
    async live(signal) {
      while (!signal.aborted) {
        await session(planOf(decisions), signal);
        await pause(decisions.between(50, workloadRef === IDLE ? 40_000 : 1500), signal);
      }
    },
    async comeBack(signal) {
      if (!keepsFiles) return;
      await release("delete");
      await untilGone(signal);
      for (let tried = 0; tried < 3 && !signal.aborted; tried += 1) {
        const instanceId = await claim(true);
        if (instanceId === undefined) continue;
        await history.upToNow();
        await release("delete");
        await untilGone(signal);
        return;
      }
      if (signal.aborted) return;
      const states = (await ownClaims()).map(({ metadata, status }) => `${metadata.name}: ${JSON.stringify(status)}`);
      const saved = checker.archive(pair).saved;
      checker.violate(
        saved === EMPTY ? "no claim stuck" : "last saved files",
        `${name} cannot come back to ${saved === EMPTY ? "an instance" : JSON.stringify(saved)} while nothing is wrong: ${states.join("; ")}`,
        [name],
      );
    },
  };
}

function planOf(decisions: Decisions): Plan {
  // Long enough for some checkpoints.
  const isLong = decisions.chance(0.15);
  const between = isLong ? (["wait", "claim again", "write"] as const) : [];
  const steps = Array.from({ length: isLong ? decisions.between(2, 5) : decisions.between(0, 3) }, () => [
    decisions.pick([
      "write",
      "write",
      "claim again",
      "claim again",
      "ask for files",
      "destroy",
      "exec",
      "wait",
      "wait",
    ] as const),
    ...between,
  ]).flat();
  return {
    resume: decisions.chance(0.75),
    isDirect: decisions.chance(0.15),
    tries: decisions.between(1, 3),
    steps,
    waitMs: isLong ? decisions.between(2000, 8000) : decisions.between(0, 5000),
    bytes: decisions.between(0, decisions.chance(0.1) ? 400_000 : 8_000),
    end: decisions.pick(["release", "release", "release and wait", "release and wait", "delete", "keep"] as const),
    isGoneAwaited: decisions.chance(0.7),
  };
}

interface Answer {
  readonly instanceId?: string;
  readonly endpoint?: { readonly host: string };
  readonly stdout?: string;
  readonly exitCode?: number;
}
