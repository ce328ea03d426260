/**
 * What the sink can be told. `usage`: a record of what a session used; `claim.active`, `claim.released`,
 * `claim.error`: what became of a claim; `checkpoint.failed`: the files of a running session could not be saved;
 * `audit`: a record of the audit log.
 */
export const outgoingTypes = [
  "usage",
  "claim.active",
  "claim.released",
  "claim.error",
  "checkpoint.failed",
  "audit",
] as const;

export type OutgoingType = (typeof outgoingTypes)[number];

/** An event for the sink. */
export interface OutgoingEvent {
  readonly type: OutgoingType;
  /** The same for each time that the event is sent, and no other event's. */
  readonly id: string;
  readonly subject: string;
  /** When it happened, ISO 8601. */
  readonly time: string;
  readonly data: object;
}

/**
 * The event as a CloudEvent in JSON, on one line; its type begins with `dev.tenancy.`.
 *
 * https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
 *
 * @param source the installation that it comes from
 */
export function cloudEventOf({ type, id, subject, time, data }: OutgoingEvent, source: string): string {
  const event = { specversion: "1.0", type: `dev.tenancy.${type}`, source, id, subject, time };
  return JSON.stringify({ ...event, datacontenttype: "application/json", data });
}
