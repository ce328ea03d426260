import type { Trigger } from "../../crds/trigger.ts";
import type { Delivery } from "../api/deliveries.ts";

/** The last events of each trigger, in the memory of this process. */
export interface DeliveryLog {
  add(trigger: Trigger, delivery: Delivery): void;
  /** The newest first. */
  read(trigger: Trigger): Delivery[];
  forget(trigger: Trigger): void;
}

/** Where the log is written. */
export type DeliverySink = Pick<DeliveryLog, "add">;

const MAX_OF_TRIGGER = 50;
const MAX_IN_ALL = 1000;
/** Of a trigger's: whoever knows a webhook's path can send these, and must not push out what its senders sent. */
const MAX_OF_STRANGERS = 10;

/**
 * Makes an empty log. Of a trigger the oldest goes first, and where all triggers have too many, that of the trigger
 * which has the most: a busy one does not push out what a quiet one got.
 */
export function createDeliveryLog(): DeliveryLog {
  /** The oldest first, by the trigger's uid. */
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

/** By uid: a trigger that is made anew under a name has had none of the other's events. */
function uidOf({ metadata }: Trigger): string {
  return metadata.uid ?? metadata.name;
}

/** Whether anybody could have sent it. */
function isStrangers({ result, tenantId }: Delivery): boolean {
  return tenantId === undefined && (result === "unsigned" || result === "rejected");
}
