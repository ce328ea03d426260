import { ApiError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { startInformer } from "../../../crds/client/watch/informer.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { pause } from "../../cluster/process/wait-until.ts";
import { FLOOR_NAMESPACE } from "../environment/start-environment.ts";
import { createChanges } from "../fixtures/changes.ts";

/** Starts pods without the operator: the least that a cold claim needs. */
export interface BareStarts {
  /** Creates a pod, waits until it is Ready, and returns it with how many milliseconds that took. */
  start(name: string): Promise<{ pod: Pod; ms: number }>;
  /** Deletes a pod and waits until it is gone. */
  end(name: string): Promise<void>;
  close(): Promise<void>;
}

const LIMIT_MS = 60_000;

/** @param options.template a pod of the workload that is measured */
export async function createBareStarts(options: {
  client: ClusterClient;
  template: Pod;
  signal: AbortSignal;
}): Promise<BareStarts> {
  const { client, template, signal } = options;
  const closing = new AbortController();
  const changes = createChanges();
  const informer = startInformer<Pod>({
    client,
    resource: pods,
    namespace: FLOOR_NAMESPACE,
    indexes: {},
    onChange: () => changes.notify(),
    signal: closing.signal,
  });
  await informer.synced;

  return {
    async start(name) {
      const began = performance.now();
      await create(barePod(template, name));
      const pod = await until(`pod ${name} to be ready`, () => {
        const found = informer.store.get(`${FLOOR_NAMESPACE}/${name}`);
        return found !== undefined && isReady(found) ? found : undefined;
      });
      return { pod, ms: performance.now() - began };
    },
    async end(name) {
      await client.delete(pods, { namespace: FLOOR_NAMESPACE, name });
      await until(`pod ${name} to be gone`, () => informer.store.get(`${FLOOR_NAMESPACE}/${name}`) === undefined);
    },
    async close() {
      closing.abort();
      await informer.done;
    },
  };

  /** In a namespace that was just made the service account may be missing for a moment. */
  async function create(pod: Pod): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await client.create(pods, pod);
        return;
      } catch (error) {
        const mayPass = error instanceof ApiError && error.status === 403 && /serviceaccount/i.test(error.message);
        if (!mayPass || attempt === 50) throw error;
        await pause(100, signal);
      }
    }
  }

  function until<T>(what: string, find: () => T | undefined | false): Promise<T> {
    return changes.until(find, { what: () => what, limitMs: LIMIT_MS, signal });
  }
}

function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

/** A pod with the same containers as one that the operator made, to be created without the operator. */
function barePod(template: Pod, name: string): Pod {
  const { nodeName: _, ...spec } = template.spec;
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: FLOOR_NAMESPACE }, spec };
}
