import { randomUUID } from "node:crypto";
import type { EventSink } from "../../crds/sink/event-sink.ts";
import type { AuditRecord } from "./audit-record.ts";
import type { AuditNote } from "./audit-text.ts";

/** Returns a function that sends what is written to the audit log to the sink. */
export function createAuditEvents(sink: EventSink): (content: AuditRecord | AuditNote) => void {
  return (content) => {
    const subject = "route" in content ? content.route : "audit";
    void sink.add({ type: "audit", id: `audit/${randomUUID()}`, subject, time: content.time, data: content });
  };
}
