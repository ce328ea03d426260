import type { ApiClient } from "../../cluster/kubernetes/api-client.ts";
import { pause } from "../../cluster/process/wait-until.ts";
import type { Checker, PodRecord } from "../checker.ts";
import type { SoakObjects } from "../cluster/object-storage.ts";
import type { SoakPods } from "../cluster/soak-cluster.ts";
import type { Decisions } from "../decisions.ts";
import { CLAIMS_PATH, NAMESPACE, PODS_PATH } from "../objects.ts";
import { LEASE_SECONDS, type SoakProgram } from "../programs.ts";
import type { Counts, Trace } from "../trace.ts";
import type { FaultProxy } from "./fault-proxy.ts";
import { editPod, editWarmPod, endPeople, fillQuota, holdClaim, remakeWorkload } from "./people.ts";

/** Everything that faults are done to. */
export interface FaultTargets {
  readonly operators: readonly { readonly program: SoakProgram; readonly proxy: FaultProxy }[];
  readonly edges: readonly { readonly program: SoakProgram; readonly proxy: FaultProxy }[];
  readonly pods: SoakPods;
  /** Where snapshots are kept; undefined where that is the volume. */
  readonly objects: SoakObjects | undefined;
  readonly checker: Checker;
  readonly api: ApiClient;
  readonly trace: Trace;
  readonly counts: Counts;
}

type Operator = FaultTargets["operators"][number];
type Fault = (targets: FaultTargets, decisions: Decisions, signal: AbortSignal) => Promise<void>;

const KINDS = ["tenancyclaims", "pods", "tenancyworkloads", "tenancypools"] as const;
/** Takes nodes that can be made to stand still. */
const NODE_FAULT = "node not ready";
/** Of the volume. */
const HELPER_FAULT = "helper deleted";
/** Of object storage. */
const OBJECT_FAULTS = ["object storage hangs", "object storage lost"];
const LEASE_PATH = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/tenancy-operator`;
const HELPER_SELECTOR = "labelSelector=app.kubernetes.io%2Fname%3Dtenancy-snapshots";

/** Each part makes its faults one after the other, beside the other parts. */
export const FAULT_PARTS: Readonly<
  Record<string, { readonly pauseMs: readonly [number, number]; readonly faults: Readonly<Record<string, Fault>> }>
> = {
  processes: {
    pauseMs: [2000, 8000],
    faults: {
      "leader killed": async (targets, decisions, signal) => {
        const leader = await findLeader(targets, decisions);
        await leader.program.kill();
        await pause(decisions.between(0, 3000), signal);
        await leader.program.start();
      },
      "leader stopped": async (targets, decisions, signal) => {
        const leader = await findLeader(targets, decisions);
        await leader.program.terminate();
        await pause(decisions.between(0, 2000), signal);
        await leader.program.start();
      },
      "leader suspended": async (targets, decisions, signal) => {
        const leader = await findLeader(targets, decisions);
        leader.program.suspend();
        await pause(LEASE_SECONDS * 1000 * (0.5 + 2 * decisions.number()), signal);
        leader.program.resume();
      },
      "leader killed, its successor lags": successorLags((leader) => leader.program.kill()),
      "leader stopped, its successor lags": successorLags((leader) => leader.program.terminate()),
      "leader suspended, its successor lags": successorLags(async (leader) => leader.program.suspend()),
      "clock jumped": async (targets, decisions, signal) => {
        const { program } = decisions.pick([...targets.operators, ...targets.edges]);
        program.shiftClock(decisions.pick([-3_600_000, -30_000, -5000, 5000, 30_000, 3_600_000]));
        await pause(decisions.between(2000, 15_000), signal);
        program.shiftClock(0);
      },
      "edge killed": async ({ edges }, decisions, signal) => {
        const { program } = decisions.pick(edges);
        await program.kill();
        await pause(decisions.between(0, 1000), signal);
        await program.start();
      },
    },
  },
  operators: networkFaults((targets, decisions) => decisions.pick(targets.operators).proxy, [500, 4000]),
  edges: networkFaults((targets, decisions) => decisions.pick(targets.edges).proxy, [3000, 10_000]),
  people: {
    pauseMs: [1500, 6000],
    faults: {
      "pod edited": editPod,
      "warm pod edited": editWarmPod,
      "claim held": holdClaim,
      "quota full": fillQuota,
      "workload made again": remakeWorkload,
    },
  },
  sessions: {
    pauseMs: [1000, 5000],
    faults: {
      "pod with a checkpoint deleted": (targets, decisions) => {
        const uid = pickSession(targets, decisions, { hasCheckpoint: true });
        return endPod(targets, uid, decisions.pick([0, 5]));
      },
      "pod with a checkpoint failed": (targets, decisions) =>
        failPod(targets, pickSession(targets, decisions, { hasCheckpoint: true })),
      "pod without a checkpoint deleted": (targets, decisions) =>
        endPod(targets, pickSession(targets, decisions, { hasCheckpoint: false }), 0),
      "session lost": async (targets, decisions) => {
        const uid = pickSession(targets, decisions, { hasCheckpoint: true });
        await Promise.all([endPod(targets, uid, 0), endClaim(targets, uid)]);
      },
    },
  },
  pods: {
    pauseMs: [1500, 6000],
    faults: {
      "pod deleted": (targets, decisions) => endPod(targets, pickBound(targets, decisions), 5),
      "pod deleted by force": (targets, decisions) => endPod(targets, pickBound(targets, decisions), 0),
      "pod failed": (targets, decisions) => failPod(targets, pickBound(targets, decisions)),
      [HELPER_FAULT]: async ({ api }) => {
        await api.call({ method: "DELETE", path: `${PODS_PATH}?${HELPER_SELECTOR}`, body: { gracePeriodSeconds: 1 } });
      },
      [NODE_FAULT]: async ({ pods, checker }, decisions, signal) => {
        const node = decisions.pick(pods.nodes);
        for (const uid of pods.podsOn(node)) checker.excuse(uid, `its node ${node} is not ready`);
        await pods.freeze(node);
        await pause(decisions.between(3000, 15_000), signal);
        // Pods that were scheduled to it in the meantime.
        for (const uid of pods.podsOn(node)) checker.excuse(uid, `its node ${node} was not ready`);
        await pods.thaw(node);
      },
      "object storage hangs": async ({ objects }, decisions, signal) => {
        objects?.hang();
        await pause(decisions.between(500, 12_000), signal);
        objects?.goOn();
      },
      "object storage lost": async ({ objects }, decisions, signal) => {
        if (objects === undefined) return;
        objects.isLost = true;
        await pause(decisions.between(500, 12_000), signal);
        objects.isLost = false;
      },
    },
  },
};

/** Makes one part's faults until the signal is aborted; ends each that it began. */
export async function makeFaults(
  part: string,
  { targets, decisions, signal }: { targets: FaultTargets; decisions: Decisions; signal: AbortSignal },
): Promise<void> {
  const { pauseMs, faults } = FAULT_PARTS[part] ?? { pauseMs: [0, 0], faults: {} };
  const names = Object.keys(faults).filter((name) => isPossible(name, targets));
  while (!signal.aborted) {
    await pause(decisions.between(pauseMs[0], pauseMs[1]), signal);
    if (signal.aborted) return;
    const name = decisions.pick(names);
    targets.counts.add(`fault ${name}`);
    targets.trace.note("fault", [part], { name });
    await faults[name]?.(targets, decisions, signal);
    targets.trace.note("fault over", [part], { name });
  }
}

function isPossible(fault: string, { pods, objects }: FaultTargets): boolean {
  if (fault === NODE_FAULT) return pods.nodes.length > 0;
  if (fault === HELPER_FAULT) return objects === undefined;
  return objects !== undefined || !OBJECT_FAULTS.includes(fault);
}

/** Ends every fault: programs run, clocks are right, nothing stands between them and the API server. */
export async function endFaults(targets: FaultTargets): Promise<void> {
  const { operators, edges, pods, objects } = targets;
  objects?.goOn();
  if (objects !== undefined) objects.isLost = false;
  for (const { program, proxy } of [...operators, ...edges]) {
    program.resume();
    program.shiftClock(0);
    proxy.heal();
    await program.start();
  }
  for (const node of pods.nodes) await pods.thaw(node);
  await endPeople(targets);
}

function networkFaults(
  choose: (targets: FaultTargets, decisions: Decisions) => FaultProxy,
  pauseMs: readonly [number, number],
): (typeof FAULT_PARTS)[string] {
  const during =
    (begin: (proxy: FaultProxy, decisions: Decisions) => () => void, lengthMs: readonly [number, number]): Fault =>
    async (targets, decisions, signal) => {
      const end = begin(choose(targets, decisions), decisions);
      await pause(decisions.between(...lengthMs), signal);
      end();
    };
  const delay = (proxy: FaultProxy, decisions: Decisions): (() => void) => {
    const kind = decisions.pick(KINDS);
    proxy.delayWatches(kind, decisions.between(1000, 30_000));
    return () => proxy.delayWatches(kind, 0);
  };
  return {
    pauseMs,
    faults: {
      "one watch delayed": during(delay, [5000, 25_000]),
      "two watches delayed": during(
        (proxy, decisions) => {
          const ends = [delay(proxy, decisions), delay(proxy, decisions)];
          return () => ends.forEach((end) => void end());
        },
        [5000, 25_000],
      ),
      "calls refused": during(
        ({ faults }, decisions) => {
          const statuses = decisions.pick([[409], [429], [500], [503], [409, 410, 429, 500, 503]]);
          faults.refuse = { probability: 0.1 + 0.5 * decisions.number(), statuses };
          return () => {
            faults.refuse = undefined;
          };
        },
        [1000, 8000],
      ),
      "calls stalled": during(
        ({ faults }, decisions) => {
          faults.stall = { probability: 0.3 * decisions.number(), mostMs: decisions.between(500, 12_000) };
          return () => {
            faults.stall = undefined;
          };
        },
        [1000, 8000],
      ),
      "answers lost": during(
        ({ faults }, decisions) => {
          faults.loseAnswer = 0.1 + 0.4 * decisions.number();
          return () => {
            faults.loseAnswer = 0;
          };
        },
        [1000, 8000],
      ),
      "answers cut": during(
        ({ faults }, decisions) => {
          faults.cutAnswer = 0.1 + 0.4 * decisions.number();
          return () => {
            faults.cutAnswer = 0;
          };
        },
        [1000, 6000],
      ),
      "connections cut": async (targets, decisions) => choose(targets, decisions).cut(),
      "watches expired": async (targets, decisions) =>
        choose(targets, decisions).expireWatches(decisions.chance(0.5) ? decisions.pick(KINDS) : undefined),
    },
  };
}

/**
 * The operator that takes over, which is when the lease has run out, has seen one kind's changes and the other's not
 * yet.
 */
function successorLags(end: (leader: Operator) => Promise<void>): Fault {
  return async (targets, decisions, signal) => {
    const leader = await findLeader(targets, decisions);
    const kind = decisions.pick(["pods", "pods", "tenancyclaims"] as const);
    const successors = targets.operators.filter((operator) => operator !== leader);
    for (const { proxy } of successors) proxy.delayWatches(kind, decisions.between(20_000, 30_000));
    await pause(decisions.between(2000, 8000), signal);
    await end(leader);
    await pause(LEASE_SECONDS * 1000 + decisions.between(2000, 8000), signal);
    await leader.program.start();
    leader.program.resume();
    for (const { proxy } of successors) proxy.delayWatches(kind, 0);
  };
}

/** The operator that the lease names; any where it names none that runs. */
async function findLeader({ operators, api }: FaultTargets, decisions: Decisions): Promise<Operator> {
  const any = decisions.pick(operators);
  const { status, text } = await api.call({ method: "GET", path: LEASE_PATH });
  if (status !== 200) return any;
  const { spec } = JSON.parse(text) as { spec?: { holderIdentity?: string } };
  const pid = Number(spec?.holderIdentity?.split("_").at(-2));
  return operators.find(({ program }) => program.pid() === pid) ?? any;
}

async function endPod({ checker, api }: FaultTargets, uid: string | undefined, graceSeconds: number): Promise<void> {
  if (uid === undefined) return;
  const name = checker.pods.get(uid)?.pod.metadata.name;
  checker.excuse(uid, "deleted by the soak");
  const body = { gracePeriodSeconds: graceSeconds, preconditions: { uid } };
  const { status, text } = await api.call({ method: "DELETE", path: `${PODS_PATH}/${name}`, body });
  if (status >= 300 && status !== 404 && status !== 409) throw new Error(`Cannot delete ${name}: ${status} ${text}`);
}

async function failPod({ checker, pods }: FaultTargets, uid: string | undefined): Promise<void> {
  if (uid === undefined) return;
  checker.excuse(uid, "failed by the soak");
  await pods.fail(uid);
}

async function endClaim({ checker, api }: FaultTargets, podUid: string | undefined): Promise<void> {
  const { claim } = checker.claims.get(checker.pods.get(podUid ?? "")?.claimUid ?? "") ?? {};
  if (claim === undefined) return;
  const { name, uid } = claim.metadata;
  const request = { method: "DELETE", path: `${CLAIMS_PATH}/${name}`, body: { preconditions: { uid } } } as const;
  await checker.whileReleasing(claim.spec, () => api.call(request));
}

/** A pod of some Active claim, the same for the same seed only as far as the run was the same. */
function pickBound({ checker }: FaultTargets, decisions: Decisions): string | undefined {
  return pickOne(
    [...checker.pods.values()].filter(({ handedOutTo }) => handedOutTo.size > 0),
    decisions,
  );
}

/** A pod of a session that has a checkpoint, or of one that has none yet. */
function pickSession(
  { checker }: FaultTargets,
  decisions: Decisions,
  which: { hasCheckpoint: boolean },
): string | undefined {
  return pickOne(
    checker.sessionPods(which).flatMap((uid) => checker.pods.get(uid) ?? []),
    decisions,
  );
}

function pickOne(records: readonly PodRecord[], decisions: Decisions): string | undefined {
  const chosen = decisions.number();
  const left = records.filter(({ deletingAt, excuse }) => deletingAt === undefined && excuse() === undefined);
  return left[Math.floor(chosen * left.length)]?.pod.metadata.uid;
}
