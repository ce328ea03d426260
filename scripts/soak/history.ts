import type { ApiClient } from "../cluster/kubernetes/api-client.ts";
import { pause, waitUntil } from "../cluster/process/wait-until.ts";
import { type Claim, MARKS_NAMESPACE, type Pod } from "./objects.ts";

/** One change of a pod or a claim, in etcd's order. */
export type Change =
  | { readonly kind: "pod"; readonly type: ChangeType; readonly revision: number; readonly object: Pod }
  | { readonly kind: "claim"; readonly type: ChangeType; readonly revision: number; readonly object: Claim };
type ChangeType = "ADDED" | "MODIFIED" | "DELETED";

/**
 * All changes of pods and claims in etcd's order, which a watch of one kind cannot show.
 *
 * Each kind has a watch. In its own namespace, the history repeatedly changes an object of each kind as a mark. A watch
 * that has shown a mark has shown every change before it. So a change is reported once both watches have shown a later
 * mark.
 */
export interface History {
  /** Resolves when every change that the API server has accepted so far was reported. */
  upToNow(): Promise<void>;
  /** The revision up to which changes were reported. */
  revision(): number;
  stop(): Promise<void>;
}

const MARK_EVERY_MS = 250;
const KINDS = {
  pod: { all: "/api/v1/pods", marks: `/api/v1/namespaces/${MARKS_NAMESPACE}/pods` },
  claim: {
    all: "/apis/tenancy.dev/v1alpha1/tenancyclaims",
    marks: `/apis/tenancy.dev/v1alpha1/namespaces/${MARKS_NAMESPACE}/tenancyclaims`,
  },
} as const;
type Kind = keyof typeof KINDS;

/** Follows pods and claims of every namespace from now on. `onTrouble` is called with the error that ends this. */
export async function followHistory(options: {
  api: ApiClient;
  onChange(change: Change): void;
  onTrouble(error: unknown): void;
}): Promise<History> {
  const { api, onChange, onTrouble } = options;
  const stopping = new AbortController();
  const pending: Record<Kind, Change[]> = { pod: [], claim: [] };
  const shown: Record<Kind, number> = { pod: 0, claim: 0 };
  const waiters = new Set<{ revision: number; resolve: () => void }>();
  let told = 0;

  await expect(api, "POST", "/api/v1/namespaces", { metadata: { name: MARKS_NAMESPACE } });
  // No scheduler handles it, so it never runs.
  const spec = { schedulerName: "soak-none", containers: [{ name: "mark", image: "soak/mark:1" }] };
  const first = { path: KINDS.pod.marks, body: { metadata: { name: "mark" }, spec } };
  // If controllers run, a namespace accepts pods only after they have created its service account.
  await waitUntil(async () => (await api.call({ method: "POST", ...first })).status === 201, {
    ...{ what: `a pod in ${MARKS_NAMESPACE} to be taken`, limitMs: 60_000 },
  });
  await expect(api, "POST", KINDS.claim.marks, {
    apiVersion: "tenancy.dev/v1alpha1",
    kind: "TenancyClaim",
    metadata: { name: "mark" },
    spec: { tenantId: "mark", workloadRef: "mark" },
  });
  const following = [follow("pod"), follow("claim"), marking()];
  await upToNow();
  return {
    upToNow,
    revision: () => told,
    async stop() {
      stopping.abort();
      for (const { resolve } of waiters) resolve();
      await Promise.all(following);
    },
  };

  async function follow(kind: Kind): Promise<void> {
    let from = "0";
    while (!stopping.signal.aborted) {
      try {
        await api.lines(
          `${KINDS[kind].all}?watch=1&timeoutSeconds=3600&resourceVersion=${from}`,
          (line) => {
            // No caller would receive an error thrown here.
            try {
              from = show(kind, line);
            } catch (error) {
              onTrouble(error);
            }
          },
          stopping.signal,
        );
      } catch (error) {
        if (stopping.signal.aborted) return;
        onTrouble(error);
      }
      await pause(100, stopping.signal);
    }
  }

  /** Handles one line of a kind's watch, and returns its resource version. */
  function show(kind: Kind, line: Buffer): string {
    const { type, object } = JSON.parse(line.toString("utf8")) as { type: string; object: Pod & Claim };
    if (type === "ERROR") throw new Error(`Cannot follow every ${kind}: ${line.toString("utf8").slice(0, 300)}`);
    const { resourceVersion, namespace } = object.metadata;
    const revision = Number(resourceVersion);
    shown[kind] = revision;
    if (namespace !== MARKS_NAMESPACE) pending[kind].push({ kind, type: type as ChangeType, revision, object });
    tell();
    return resourceVersion;
  }

  function tell(): void {
    const safe = Math.min(shown.pod, shown.claim);
    for (;;) {
      const [pod, claim] = [pending.pod[0], pending.claim[0]];
      const next = pod === undefined || (claim !== undefined && claim.revision < pod.revision) ? claim : pod;
      if (next === undefined || next.revision > safe) break;
      pending[next.kind].shift();
      told = next.revision;
      onChange(next);
    }
    told = Math.max(told, safe);
    for (const waiter of waiters) {
      if (waiter.revision > safe) continue;
      waiters.delete(waiter);
      waiter.resolve();
    }
  }

  async function marking(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await mark();
      } catch (error) {
        if (!stopping.signal.aborted) onTrouble(error);
      }
      await pause(MARK_EVERY_MS, stopping.signal);
    }
  }

  /** Writes a mark of each kind, and returns the revision of the first mark. */
  async function mark(): Promise<number> {
    const revisions = await Promise.all(
      (["pod", "claim"] as const).map(async (kind) => {
        const body = { metadata: { annotations: { "soak/mark": String(performance.now()) } } };
        const text = await expect(api, "PATCH", `${KINDS[kind].marks}/mark`, body);
        return Number((JSON.parse(text) as Pod).metadata.resourceVersion);
      }),
    );
    return Math.min(...revisions);
  }

  async function upToNow(): Promise<void> {
    const revision = await mark();
    await new Promise<void>((resolve) => {
      if (stopping.signal.aborted) resolve();
      else waiters.add({ revision, resolve });
      tell();
    });
  }
}

/** Sends a request and returns the response. A PATCH is a merge patch. */
export async function expect(
  api: ApiClient,
  method: "GET" | "POST" | "PATCH" | "DELETE",
  path: string,
  body?: unknown,
): Promise<string> {
  const contentType = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const { status, text } = await api.call({ method, path, body, contentType, limitMs: 60_000 });
  if (status >= 300) throw new Error(`Cannot ${method} ${path}: status ${status} ${text.slice(0, 300)}`);
  return text;
}
