/** What an API server writes down of each write: who made it, and nothing of its content. */
export const WRITES_POLICY = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete]
    resources:
      - { group: tenancy.dev }
      - { group: "", resources: [pods] }
      - { group: coordination.k8s.io, resources: [leases] }
  - level: None
`;

interface AuditEvent {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef: { readonly resource: string; readonly name?: string };
  readonly responseStatus?: { readonly code?: number };
  readonly requestReceivedTimestamp: string;
}

/**
 * The writes that an operator made after another had taken the lease.
 *
 * @param log lines of JSON, one an event
 * @param operators their users
 */
export function writesOfFormerLeaders(log: string, operators: readonly string[]): string[] {
  const events = log
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as AuditEvent)
    .filter(({ user, responseStatus }) => operators.includes(user.username) && (responseStatus?.code ?? 500) < 300)
    .sort((a, b) => (a.requestReceivedTimestamp < b.requestReceivedTimestamp ? -1 : 1));
  let leader: string | undefined;
  const found: string[] = [];
  for (const { verb, user, objectRef, requestReceivedTimestamp } of events) {
    if (objectRef.resource === "leases") leader = user.username;
    else if (user.username !== leader)
      found.push(
        `${requestReceivedTimestamp} ${user.username}: ${verb} ${objectRef.resource} ${objectRef.name}, led by ${leader}`,
      );
  }
  return found;
}
