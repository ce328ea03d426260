import { UsageError } from "./command.ts";

/** A claim's tenant and workload. */
export interface ClaimKey {
  readonly tenant: string;
  readonly workload: string;
}

/** Where a command works: the instance of a claim, or one that is named by its id. */
export type Where = string | ClaimKey;

/** Reads `tenant/workload`, or the id of an instance. @throws UsageError */
export function whereOf(text: string): Where {
  return text.includes("/") ? claimKeyOf([text]) : idOf(text);
}

/** Reads `tenant/workload`, or the two as words. @throws UsageError */
export function claimKeyOf(words: readonly string[]): ClaimKey {
  const [tenant = "", workload = "", ...surplus] = words.length === 1 ? (words[0] ?? "").split("/") : words;
  if (tenant === "" || workload === "" || surplus.length > 0 || `${tenant}${workload}`.includes("/"))
    throw new UsageError(`Cannot use ${JSON.stringify(words.join(" "))}: write tenant/workload, such as alice/hello`);
  return { tenant, workload };
}

export function textOfWhere(where: Where): string {
  return typeof where === "string" ? where : `${where.tenant}/${where.workload}`;
}

function idOf(text: string): string {
  if (!/^[a-z0-9][a-z0-9.-]*$/.test(text))
    throw new UsageError(`Cannot use ${JSON.stringify(text)}: write tenant/workload, or the id of an instance`);
  return text;
}
