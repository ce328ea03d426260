import * as v from "valibot";
import { quote } from "../../../crds/quote.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { requireWorkload } from "../../access/authorize.ts";
import { HttpError } from "../../http/http-error.ts";
import { workloadNameRule } from "../../http/parameters.ts";
import type { RoutedRequest } from "../../http/router.ts";

const says = (issue: v.RegexIssue<string> | v.MaxLengthIssue<string, number>) =>
  `${workloadNameRule.says}, got ${quote(issue.input)}`;
const workloadName = v.pipe(v.string(), v.regex(new RegExp(pattern.subdomain), says), v.maxLength(63, says));

/** Fields of a body that name the workload. */
export const workloadFields = {
  workload: v.optional(v.pipe(workloadName, v.description("The workload."))),
  workloadRef: v.optional(
    v.pipe(workloadName, v.description("An alias of `workload`; if both are given, they must be equal.")),
  ),
};

/** Fields of a body that name a claim. */
export const claimBodyFields = {
  ...workloadFields,
  uid: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[-A-Za-z0-9]{1,63}$/, "must be the uid of a claim"),
      v.description("The claim object to act on: 409 if it has ended. Without it, the current claim."),
    ),
  ),
};

/** What the JSON schema of such a body adds: one of the two names is needed. */
export const namesWorkload = [{ anyOf: [{ required: ["workload"] }, { required: ["workloadRef"] }] }];

/**
 * The workload that a body names, which the audit log of its request then has. `workloadRef` is accepted as an alias of
 * `workload`.
 *
 * @throws HttpError 400 without one; 404 for one that the caller's key does not reach
 */
export function workloadOf(
  { workload, workloadRef }: { workload?: string | undefined; workloadRef?: string | undefined },
  { audit, caller }: Pick<RoutedRequest, "audit" | "caller">,
): string {
  const name = workload ?? workloadRef;
  if (name === undefined) throw new HttpError(400, "body.workload: is required");
  if (workloadRef !== undefined && workloadRef !== name) {
    throw new HttpError(400, `body.workloadRef: is an alias of body.workload and differs from it; give one of them`);
  }
  audit?.about({ workload: name });
  requireWorkload(caller?.actor, name);
  return name;
}
