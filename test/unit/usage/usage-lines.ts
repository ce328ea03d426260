import { hourAt } from "../../../crds/usage/usage-hour.ts";
import { recordsOf, type UsageEnd, type UsageRecord } from "../../../crds/usage/usage-record.ts";

export interface UsedBy {
  readonly tenantId: string;
  readonly workload?: string;
  readonly source?: UsageRecord["source"];
  /** ISO 8601 */
  readonly from: string;
  readonly seconds: number;
  /** null: it goes on. @default "released" */
  readonly end?: UsageEnd | null;
}

/** The lines of the records of sessions with two CPUs and 100 MiB, those of each session as one text. */
export function usageLines(sessions: readonly UsedBy[]): string[] {
  return sessions.map(({ tenantId, workload = "app", source = "pool", from, seconds, end = "released" }, index) => {
    const since = Date.parse(from);
    const session = {
      ...{ id: `${tenantId}-${index}.pod`, tenantId, workload, labels: {}, source, since },
      ...{ vcpus: 2, memoryMb: 100 },
    };
    const options = { first: hourAt(since), to: since + seconds * 1000, end: end ?? undefined };
    return [...recordsOf(session, options)].map((record) => `${JSON.stringify(record)}\n`).join("");
  });
}
