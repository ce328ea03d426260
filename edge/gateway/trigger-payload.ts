/** What an adapter makes of an event, and a driver brings to the container. */
export interface TriggerPayload {
  /** Names the event for good: the same however often its source delivers it. */
  readonly id: string;
  /** The trigger's name. */
  readonly trigger: string;
  readonly source: "webhook" | "messenger" | "cron";
  readonly tenantId: string;
  /** What a person wrote, where the event is a message. */
  readonly text?: string | undefined;
  readonly data: unknown;
  /** ISO 8601 time. */
  readonly receivedAt: string;
}
