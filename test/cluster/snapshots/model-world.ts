import type { Claim } from "../../../crds/claim.ts";
import { isNotFound, NetworkError } from "../../../crds/client/api-error.ts";
import { leases, pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { claims } from "../../../crds/kinds.ts";
import { claimLabels, finalizer } from "../../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { NAMESPACE, type RunningOperator, type Tenancy } from "../tenancy.ts";
import { createMemorySnapshots, type MemoryVolume, type Point } from "./memory-snapshots.ts";
import type { PretendKubelet } from "./pretend-kubelet.ts";

/** What is made to happen when the work gets to a point. */
export interface Plan {
  readonly point: Point;
  readonly action: "fail" | "kill operator" | "kill operator, work goes on" | "kill helper" | "slow";
}

/**
 * The real system of the model-based test: a control plane, an operator that can be killed, a volume and pods in
 * memory.
 */
export interface ModelWorld {
  readonly tenancy: Tenancy;
  readonly kubelet: PretendKubelet;
  readonly volume: MemoryVolume;
  /** What was made to happen so far. */
  readonly happened: Map<Plan["action"], number>;
  /** Has something happen once, or always. */
  plan(plan: Plan | undefined, options?: { always: boolean }): void;
  /** Lets work go on that was left half done when its operator was killed, and waits until it has. */
  letGoOn(): Promise<void>;
  killOperator(): Promise<void>;
  killHelper(): Promise<void>;
  /** Creates a claim under a name that no other has. */
  createClaim(tenantId: string, workloadRef: string, resume: boolean): Promise<Claim>;
  deleteClaim(claim: Claim): Promise<void>;
  untilGone(claim: Claim): Promise<void>;
  stop(): Promise<void>;
}

const SLOW_MS = 60;

export function startModelWorld(tenancy: Tenancy, kubelet: PretendKubelet): ModelWorld {
  const { client } = tenancy;
  const volume: MemoryVolume = { archives: new Map(), versions: new Map(), touched: [], checkpoints: new Map() };
  const happened = new Map<Plan["action"], number>();
  const stops = new Set<Promise<void>>();
  const halted = new Set<() => void>();
  let plan: Plan | undefined;
  let isLasting = false;
  let count = 0;
  let current: Living | undefined;

  interface Living {
    isDead: boolean;
    operator: RunningOperator;
  }

  async function act(self: Living | undefined, { action }: Plan): Promise<void> {
    happened.set(action, (happened.get(action) ?? 0) + 1);
    switch (action) {
      case "fail":
        throw new Error("it fails, as planned");
      case "slow":
        return new Promise((resolve) => setTimeout(resolve, SLOW_MS));
      case "kill helper":
        await world.killHelper();
        throw new Error("the helper pod was killed");
      case "kill operator":
        if (self === current) await world.killOperator();
        throw new Error("the operator was killed");
      case "kill operator, work goes on":
        if (self === current) await world.killOperator();
        return new Promise((resolve) => halted.add(resolve));
      default:
        return action satisfies never;
    }
  }

  function start(): void {
    let self: Living | undefined;
    const snapshots = createMemorySnapshots({
      ...{ kubelet, volume },
      async reach(point) {
        if (plan?.point !== point) return;
        const reached = plan;
        if (!isLasting) plan = undefined;
        await act(self, reached);
      },
    });
    count += 1;
    const operator = tenancy.startOperator({
      snapshots,
      identity: `model-${count}`,
      wrap: (whole) => mortal(whole, () => self?.isDead === true),
    });
    self = { isDead: false, operator };
    current = self;
  }

  const world: ModelWorld = {
    ...{ tenancy, kubelet, volume, happened },
    plan(next, { always } = { always: false }) {
      plan = next;
      isLasting = always;
    },
    async letGoOn() {
      for (const goOn of halted) goOn();
      halted.clear();
      await Promise.all(stops);
    },
    async killOperator() {
      const killed = current;
      if (killed !== undefined) {
        killed.isDead = true;
        const stopped: Promise<void> = killed.operator.stop().finally(() => stops.delete(stopped));
        stops.add(stopped);
      }
      current = undefined;
      // What is dead renews nothing, and the test need not wait until the lease shows that.
      await ignoreAbsent(client.delete(leases, { namespace: NAMESPACE, name: "tenancy-operator" }));
      start();
    },
    killHelper: () => ignoreAbsent(client.delete(pods, { namespace: NAMESPACE, name: SNAPSHOTS_NAME })),
    createClaim(tenantId, workloadRef, resume) {
      count += 1;
      return client.create(claims, {
        metadata: {
          ...{ name: `claim-${tenantId}-${workloadRef}-${count}`, namespace: NAMESPACE },
          ...{ labels: claimLabels({ tenantId, workloadRef }), finalizers: [finalizer.release] },
        },
        spec: { tenantId, workloadRef, resume },
      });
    },
    deleteClaim: ({ metadata: { name } }) => ignoreAbsent(tenancy.deleteClaim(name)),
    untilGone: ({ metadata: { name } }) => tenancy.untilGone(name),
    async stop() {
      current = undefined;
      await world.letGoOn();
    },
  };
  start();
  return world;
}

/** A client that reaches nothing any more once its operator is dead. */
function mortal(client: ClusterClient, isDead: () => boolean): ClusterClient {
  function live<T>(call: () => Promise<T>): Promise<T> {
    if (!isDead()) return call();
    return Promise.reject(new NetworkError("the operator is dead", { requestWasSent: false }));
  }
  return {
    ...client,
    create: (resource, object, options) => live(() => client.create(resource, object, options)),
    replace: (resource, object, options) => live(() => client.replace(resource, object, options)),
    patch: (resource, reference, options) => live(() => client.patch(resource, reference, options)),
    apply: (resource, object, options) => live(() => client.apply(resource, object, options)),
    delete: (resource, reference, options) => live(() => client.delete(resource, reference, options)),
  };
}

async function ignoreAbsent(deleted: Promise<unknown>): Promise<void> {
  try {
    await deleted;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
