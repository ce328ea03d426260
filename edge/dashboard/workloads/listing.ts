import { computed } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import type { Live } from "../api/live-list.ts";

/** A workload, and why its users fail, if they do. */
export type WorkloadRow = ApiTypes["Workload"] & { readonly failing?: string };

interface Lists {
  readonly workloads: Live<ApiTypes["Workload"]>;
  readonly claims: Live<ApiTypes["Claim"]>;
  readonly pools: Live<ApiTypes["Pool"]>;
}

/** The workload that something uses, and why that use fails. */
interface Use {
  readonly workload: string;
  readonly reason: string | undefined;
}

/** Reasons caused by the workload, not by the tenant's files, the cluster or the claim. */
const ownReasons = new Set(["CrashLooping", "ImagePullFailed", "StartTimeout", "OnClaimFailed"]);

/** Why a claim fails, if its workload is the cause. */
export function claimFailure({ reason }: Pick<ApiTypes["Claim"], "reason">): string | undefined {
  return reason !== undefined && ownReasons.has(reason) ? reason : undefined;
}

/** Why a pool fails, if its workload is the cause. */
export function poolFailure({ status }: Pick<ApiTypes["Pool"], "status">): string | undefined {
  return status.phase === "Degraded" ? (status.reason ?? status.phase) : undefined;
}

/** The reason of a problem: the workload's own, or that of its users. */
export function reasonOf({ status, failing }: WorkloadRow): string | undefined {
  return status.reason ?? failing;
}

/**
 * The list of workloads with the state of their users. A workload is `Ready` once its spec is valid, whatever its
 * program does.
 */
export function workloadListing({ workloads, claims, pools }: Lists): Live<WorkloadRow> {
  const rows = new Map<string, WorkloadRow>();
  return {
    ...{ keyOf: workloads.keyOf, state: workloads.state, rows },
    version: computed(() => workloads.version.value + claims.version.value + pools.version.value),
    follow(sink) {
      /** By workload, then by user. */
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
        // A claim's key contains a slash; a pool's does not.
        followUsers(claims, (claim) => ({ workload: claim.workloadRef, reason: claimFailure(claim) })),
        followUsers(pools, (pool) => ({ workload: pool.spec.workloadRef, reason: poolFailure(pool) })),
      ];
      return () => {
        for (const end of ends) end();
      };
    },
  };
}
