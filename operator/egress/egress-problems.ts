import { withDefaults } from "../../crds/defaults.ts";
import type { WorkloadSpec } from "../../crds/workload.ts";
import { EGRESS_PREFIX } from "./egress-names.ts";
import { egressRules, headerNameProblem, needsProxy } from "./egress-rules.ts";
import { HEALTH_PORT, REDIRECT_PORT, TRUST_FOLDER } from "./layout.ts";

/**
 * What the proxy cannot do of a workload that is valid else: sentences that name the field and say what to change;
 * empty when it can do all, or is not needed.
 */
export function egressProblems(spec: WorkloadSpec): string[] {
  if (!needsProxy(spec)) return [];
  const { credentials, ports } = withDefaults(spec).network;
  const problems = [
    ...ports.flatMap((port, index) =>
      port === REDIRECT_PORT || port === HEALTH_PORT
        ? [`spec.network.ports[${index}]: ${port} is the proxy's: choose another`]
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
            ? [`${path}.valueFrom.secretKeyRef.name: Secrets that start with ${EGRESS_PREFIX} are the service's own`]
            : []),
        ];
      }),
    ),
    ...repeated(credentials.map(({ domain }) => domain.toLowerCase())).map(
      (domain) => `spec.network.credentials: ${domain} is there twice, upper and lower case being alike`,
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

function repeated(values: readonly string[]): string[] {
  return [...new Set(values.filter((value, index) => values.indexOf(value) !== index))];
}
