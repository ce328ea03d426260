/** The gateway's bounds, which the environment can change. */
export interface TriggerLimits {
  /** Milliseconds that an event waits for its tenant's pod. */
  readonly claimWaitMs: number;
  /** Events in flight for each trigger. */
  readonly perTrigger: number;
  /** Events in flight in all. */
  readonly inAll: number;
  /** How long a Lease holds without a renewal, in milliseconds. */
  readonly leaseMs: number;
}
