import * as v from "valibot";
import type { Place } from "../client/index.ts";

/** The arguments of each tool that say whose instance it is about. */
export const place = {
  tenant: v.pipe(v.string(), v.minLength(1), v.description("Id of the tenant.")),
  workload: v.pipe(v.string(), v.minLength(1), v.description("Name of the workload that the tenant has claimed.")),
};

export function placeOf({ tenant, workload }: { tenant: string; workload: string }): Place {
  return { tenant, workload };
}
