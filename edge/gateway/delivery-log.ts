import type { Trigger } from "../../crds/trigger.ts";
import type { Delivery } from "../api/deliveries.ts";

/** The last events of each trigger, in the memory of this process. */
export interface DeliveryLog {
  add(trigger: Trigger, delivery: Delivery): void;
  /** Newest first. */
  read(trigger: Trigger): Delivery[];
  forget(trigger: Trigger): void;
}

/** The write side of the log. */
export type DeliverySink = Pick<DeliveryLog, "add">;

const MAX_OF_TRIGGER = 50;
const MAX_IN_ALL = 1000;
/** Per trigger: everyone who knows a webhook's path can send these, and must not displace its senders' events. */
const MAX_OF_STRANGERS = 10;

/**
 * Makes an empty log. At a trigger's limit its oldest event is dropped; at the limit of all triggers, the oldest of the
 * trigger with the most: a busy trigger does not displace the events of a quiet one.
 */
export function createDeliveryLog(): DeliveryLog {
  /** By the trigger's uid, oldest first. */
  const logs = new Map<string, Delivery[]>();
  let count = 0;

  function drop(uid: string, log: Delivery[], at: number): void {
    log.splice(Math.max(0, at), 1);
    count -= 1;
    if (log.length === 0) logs.delete(uid);
  }

  return {
    add(trigger, delivery) {
      const uid = uidOf(trigger);
      const log = logs.get(uid) ?? [];
      logs.set(uid, log);
      log.push(delivery);
      count += 1;
      if (log.filter(isStrangers).length > MAX_OF_STRANGERS) drop(uid, log, log.findIndex(isStrangers));
      if (log.length > MAX_OF_TRIGGER) drop(uid, log, 0);
      if (count <= MAX_IN_ALL) return;
      const [most] = [...logs].sort(([, a], [, b]) => b.length - a.length);
      if (most !== undefined) drop(most[0], most[1], most[1].findIndex(isStrangers));
    },
    read: (trigger) => [...(logs.get(uidOf(trigger)) ?? [])].reverse(),
    forget(trigger) {
      count -= logs.get(uidOf(trigger))?.length ?? 0;
      logs.delete(uidOf(trigger));
    },
  };
}

/** By uid: a trigger that is created again under a name has none of the old one's events. */
function uidOf({ metadata }: Trigger): string {
  return metadata.uid ?? metadata.name;
}

/** Whether anyone could have sent it. */
function isStrangers({ result, tenantId }: Delivery): boolean {
  return tenantId === undefined && (result === "unsigned" || result === "rejected");
}
