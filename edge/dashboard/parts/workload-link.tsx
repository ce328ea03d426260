import { seesService } from "../api/access.ts";

/** The name of a workload, with a link to its page for those who may see it. */
export function WorkloadLink({ of }: { of: string }) {
  return seesService() ? <a href={`/dashboard/workloads/${encodeURIComponent(of)}`}>{of}</a> : <span>{of}</span>;
}
