import { computed } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import type { Live } from "../api/live-list.ts";

/** A workload, and the reason why what uses it fails, where something does. */
export type WorkloadRow = ApiTypes["Workload"] & { readonly failing?: string };

interface Lists {
  readonly workloads: Live<ApiTypes["Workload"]>;
  readonly claims: Live<ApiTypes["Claim"]>;
  readonly pools: Live<ApiTypes["Pool"]>;
}

/** Which workload something uses, and why it fails where it does. */
interface Use {
  readonly workload: string;
  readonly reason: string | undefined;
}

/** Those that lie in the workload, not in the tenant's files, the cluster or the claim. */
const ownReasons = new Set(["CrashLooping", "ImagePullFailed", "StartTimeout"]);

/** Why a claim fails, where that lies in its workload. */
export function claimFailure({ reason }: Pick<ApiTypes["Claim"], "reason">): string | undefined {
  return reason !== undefined && ownReasons.has(reason) ? reason : undefined;
}

/** Why a pool fails, where that lies in its workload. */
export function poolFailure({ status }: Pick<ApiTypes["Pool"], "status">): string | undefined {
  return status.phase === "Degraded" ? (status.reason ?? status.phase) : undefined;
}

/** Why a workload is not what it should be: by itself, or by what uses it. */
export function reasonOf({ status, failing }: WorkloadRow): string | undefined {
  return status.reason ?? failing;
}

/**
 * The list of workloads with how what uses them fares: a workload is `Ready` once it is described well, whatever its
 * program does.
 */
export function workloadListing({ workloads, claims, pools }: Lists): Live<WorkloadRow> {
  const rows = new Map<string, WorkloadRow>();
  return {
    ...{ keyOf: workloads.keyOf, state: workloads.state, rows },
    version: computed(() => workloads.version.value + claims.version.value + pools.version.value),
    follow(sink) {
      /** By workload, by what uses it. */
      const failures = new Map<string, Map<string, string>>();
      const joined = (row: ApiTypes["Workload"]): WorkloadRow => {
        const [failing] = failures.get(row.name)?.values() ?? [];
        return failing === undefined ? row : { ...row, failing };
      };
      function show(name: string): void {
        const row = workloads.rows.get(name);
        if (row === undefined) return;
        const next = joined(row);
        rows.set(name, next);
        sink.put(next);
      }
      function followUsers<Row>(users: Live<Row>, useOf: (row: Row) => Use): () => void {
        const failing = new Map<string, Use>();
        function note(key: string, use: Use | undefined): void {
          const before = failing.get(key);
          if (before !== undefined) {
            failures.get(before.workload)?.delete(key);
            failing.delete(key);
            show(before.workload);
          }
          if (use?.reason === undefined) return;
          const { workload, reason } = use;
          failing.set(key, use);
          failures.set(workload, (failures.get(workload) ?? new Map<string, string>()).set(key, reason));
          show(workload);
        }
        return users.follow({
          put: (row) => note(users.keyOf(row), useOf(row)),
          remove: (key) => note(key, undefined),
          reset(all) {
            for (const key of [...failing.keys()]) note(key, undefined);
            for (const row of all) note(users.keyOf(row), useOf(row));
          },
        });
      }
      const ends = [
        workloads.follow({
          put: ({ name }) => show(name),
          remove(name) {
            rows.delete(name);
            sink.remove(name);
          },
          reset(all) {
            rows.clear();
            for (const row of all) rows.set(row.name, joined(row));
            sink.reset(rows.values());
          },
        }),
        // A claim's key has a slash in it, a pool's has none.
        followUsers(claims, (claim) => ({ workload: claim.workloadRef, reason: claimFailure(claim) })),
        followUsers(pools, (pool) => ({ workload: pool.spec.workloadRef, reason: poolFailure(pool) })),
      ];
      return () => {
        for (const end of ends) end();
      };
    },
  };
}
