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

const TYPE = "dev.tenancy.";

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
  const event = { specversion: "1.0", type: TYPE + type, source, id, subject, time };
  return JSON.stringify({ ...event, datacontenttype: "application/json", data });
}

/** What identifies an event in its line; nothing of it for a line that is damaged. */
export function readEvent(line: string): { type?: OutgoingType | undefined; id: string; time: string } {
  try {
    const { type, id, time }: { type: string; id: string; time: string } = JSON.parse(line);
    return { type: outgoingTypes.find((one) => TYPE + one === type), id, time };
  } catch {
    return { id: "", time: "" };
  }
}

/**
 * Whose an event in a line is: that of its tenant, or for a record of the audit log, that of who made the request. A
 * request that is refused can name any tenant.
 */
export function ownerOf(line: string): string {
  try {
    const { data }: { data: { tenantId?: string; actor?: { kind: string; id?: string } } } = JSON.parse(line);
    const { tenantId, actor } = data;
    return actor === undefined ? `tenant ${tenantId ?? ""}` : `${actor.kind} ${actor.id ?? ""}`;
  } catch {
    return "";
  }
}

/** Orders events of a type by time, roughly: of usage the hour of the record, else the minute. */
export function markOf({ type, id, time }: Pick<OutgoingEvent, "type" | "id" | "time">): string {
  return type === "usage" ? id.slice(id.lastIndexOf("/") + 1) : time.slice(0, "2026-11-29T14:05".length);
}
