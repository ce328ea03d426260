import { withDefaults } from "../../crds/defaults.ts";
import { repeated } from "../../crds/schema/schema-problems.ts";
import type { WorkloadSpec } from "../../crds/workload.ts";
import { EGRESS_PREFIX } from "./egress-names.ts";
import { egressRules, headerNameProblem, needsProxy } from "./egress-rules.ts";
import { HEALTH_PORT, REDIRECT_PORT, TRUST_FOLDER } from "./layout.ts";

/**
 * What the proxy does not support in an otherwise valid workload: each sentence names the field and what to change.
 * Empty if the proxy supports all, or is not needed.
 */
export function egressProblems(spec: WorkloadSpec): string[] {
  if (!needsProxy(spec)) return [];
  const { credentials, ports } = withDefaults(spec).network;
  const problems = [
    ...ports.flatMap((port, index) =>
      port === REDIRECT_PORT || port === HEALTH_PORT
        ? [`spec.network.ports[${index}]: the proxy uses ${port}: choose another`]
        : [],
    ),
    ...(spec.filesystem?.overlayDirs ?? []).flatMap((directory, index) =>
      `${directory}/`.startsWith(`${TRUST_FOLDER}/`)
        ? [`spec.filesystem.overlayDirs[${index}]: ${TRUST_FOLDER} holds trusted authorities: choose another directory`]
        : [],
    ),
    ...credentials.flatMap(({ headers }, index) =>
      headers.flatMap(({ name, valueFrom }, inner) => {
        const path = `spec.network.credentials[${index}].headers[${inner}]`;
        const problem = headerNameProblem(name);
        const secret = valueFrom.secretKeyRef.name;
        return [
          ...(problem === undefined ? [] : [`${path}.name: ${problem}`]),
          ...(secret.startsWith(EGRESS_PREFIX)
            ? [`${path}.valueFrom.secretKeyRef.name: Secrets that start with ${EGRESS_PREFIX} belong to the operator`]
            : []),
        ];
      }),
    ),
    ...repeated(credentials.map(({ domain }) => domain.toLowerCase())).map(
      (domain) => `spec.network.credentials: ${domain} occurs twice (case does not matter)`,
    ),
  ];
  if (problems.length > 0) return problems;
  try {
    egressRules(spec);
    return [];
  } catch (error) {
    if (error instanceof TypeError) return [`spec.network: ${error.message}`];
    throw error;
  }
}
