import type { CopyOutcome } from "../../crds/snapshots/copy-store.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";

/** Prints the progress of a copy from time to time, and everything that needs attention. */
export interface CopyProgress {
  begin(keys: number): void;
  take(key: SnapshotKey, outcome: CopyOutcome): void;
  /** Prints the result. Returns whether the target has everything of the source. */
  end(): boolean;
}

const EVERY_MS = 2000;

/** @param options.now milliseconds */
export function createCopyProgress({ log, now }: { log: (line: string) => void; now: () => number }): CopyProgress {
  const counts: Record<CopyOutcome["kind"], number> = {
    ...{ copied: 0, present: 0, differs: 0 },
    ...{ surplus: 0, deleted: 0, withheld: 0, failed: 0 },
  };
  let [all, done, bytes] = [0, 0, 0];
  let [beganAt, saidAt] = [now(), now()];

  const far = (): string => {
    const seconds = Math.max(0.001, (now() - beganAt) / 1000);
    return `${done} of ${all} tenants and workloads, ${mib(bytes)} MiB sent at ${mib(bytes / seconds)} MiB/s`;
  };

  return {
    begin(keys) {
      [all, beganAt, saidAt] = [keys, now(), now()];
      log(`copying the snapshots of ${keys} tenants and workloads`);
    },
    take({ tenantId, workloadRef }, outcome) {
      counts[outcome.kind] += 1;
      const key = `${tenantId}/${workloadRef}`;
      switch (outcome.kind) {
        case "copied":
          bytes += outcome.bytes;
          break;
        case "differs":
          log(`${key}: left as it is, the target was used since`);
          break;
        case "surplus":
          log(`${key}: the source has none, and the target has; it stays without --delete`);
          break;
        case "deleted":
          log(`${key}: deleted, the source has none`);
          break;
        case "withheld":
          log(`${key}: the source has none, and the target has; it stays, since the target was used since`);
          break;
        case "failed":
          log(`${key}: not copied, ${outcome.because}`);
          break;
        case "present":
          break;
        default:
          outcome satisfies never;
      }
      if (!["surplus", "deleted", "withheld"].includes(outcome.kind)) done += 1;
      if (now() - saidAt < EVERY_MS) return;
      saidAt = now();
      log(far());
    },
    end() {
      const { copied, present, differs, surplus, deleted, withheld, failed } = counts;
      log(
        `${far()}: ${copied} copied, ${present} were there, ${differs} left as they are, ${failed} failed` +
          `${deleted > 0 ? `, ${deleted} deleted` : ""}${surplus + withheld > 0 ? `, ${surplus + withheld} more in the target` : ""}`,
      );
      if (withheld > 0) {
        log(
          "nothing was deleted: where the source is the one that is in use, delete in the target what was left as it is, " +
            "and copy again; else the source is old, and there is nothing to delete",
        );
      }
      return failed === 0 && differs === 0;
    },
  };
}

function mib(bytes: number): string {
  return (bytes / 1024 / 1024).toFixed(bytes < 100 * 1024 * 1024 ? 1 : 0);
}
