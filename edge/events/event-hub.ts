import type { Clock } from "../../crds/client/clock.ts";
import { type EventFilter, matches } from "./event-filter.ts";
import { createEventRing, type StoredEvent } from "./event-ring.ts";
import type { EventSocket, SocketListener } from "./event-socket.ts";
import type { EventType } from "./event-type.ts";

/** Carries what happens in the cluster to whoever listens on `/ws` (spec.md, section 6; design.md, section 5). */
export interface EventHub {
  /** Tells everyone who wants to know. */
  publish(event: { type: EventType; tenant: string | undefined; workload: string | undefined; object: object }): void;
  /** A new client's listener. `since` is the id of the last message that it has seen. */
  client(wish: { filter: EventFilter; since: string | undefined }): SocketListener;
  /** Closes every socket, with the code for a server that goes away. */
  close(): void;
  /** How many clients listen. */
  readonly size: number;
}

/** Clients of one filter. */
interface Group {
  readonly filter: EventFilter;
  readonly topic: string;
  readonly sockets: Set<EventSocket>;
}

const MAX_EVENTS = 4096;
const MAX_CHARACTERS = 1024 * 1024;
const GOING_AWAY = 1001;

/**
 * Makes a hub. Clients of the same filter share a group, found by its tenant, so that an event costs what its own listeners cost,
 * and a message is made into text once.
 *
 * @param options.instance a word for this process: ids of another one cannot be replayed here
 */
export function createEventHub({ instance, clock }: { instance: string; clock: Clock }): EventHub {
  const ring = createEventRing({ events: MAX_EVENTS, characters: MAX_CHARACTERS });
  /** By the tenant of their filter, and there by topic. */
  const groups = new Map<string | undefined, Map<string, Group>>();
  let count = 0;
  let size = 0;
  let closed = false;
  const idOf = (number: number): string => `${instance}-${number}`;
  const now = (): string => new Date(clock.now()).toISOString();

  function send(group: Group, text: string): void {
    for (const { fanOut } of group.sockets) {
      if (fanOut === undefined) break;
      fanOut.publish(group.topic, text);
      return;
    }
    for (const socket of group.sockets) socket.send(text);
  }

  function groupOf(filter: EventFilter): Group {
    const topic = JSON.stringify([filter.tenant, filter.workload, filter.types]);
    const ofTenant = groups.get(filter.tenant) ?? new Map<string, Group>();
    groups.set(filter.tenant, ofTenant);
    const group = ofTenant.get(topic) ?? { filter, topic, sockets: new Set() };
    ofTenant.set(topic, group);
    return group;
  }

  function replay(socket: EventSocket, filter: EventFilter, since: string): void {
    const [word, number] = [since.slice(0, since.lastIndexOf("-")), since.slice(since.lastIndexOf("-") + 1)];
    const missed = word === instance && /^\d{1,15}$/.test(number) ? ring.after(Number(number)) : undefined;
    if (missed === undefined) socket.send(JSON.stringify({ id: idOf(count), type: "resync", time: now() }));
    for (const event of missed ?? []) if (matches(filter, event)) socket.send(event.text);
  }

  return {
    publish({ type, tenant, workload, object }) {
      count += 1;
      const text = JSON.stringify({ id: idOf(count), type, time: now(), object });
      const event: StoredEvent = { type, tenant, workload, text };
      ring.add(event);
      for (const key of tenant === undefined ? [undefined] : [undefined, tenant]) {
        for (const group of groups.get(key)?.values() ?? []) if (matches(group.filter, event)) send(group, text);
      }
    },
    client({ filter, since }) {
      let joined: { socket: EventSocket; group: Group } | undefined;
      return {
        onOpen(socket) {
          if (closed) {
            socket.close(GOING_AWAY, "the server stops");
            return;
          }
          // Before it joins, so that nothing newer overtakes what it missed.
          if (since !== undefined) replay(socket, filter, since);
          const group = groupOf(filter);
          group.sockets.add(socket);
          socket.fanOut?.subscribe(group.topic);
          joined = { socket, group };
          size += 1;
        },
        onClose() {
          if (joined === undefined) return;
          const { socket, group } = joined;
          joined = undefined;
          size -= 1;
          group.sockets.delete(socket);
          if (group.sockets.size > 0) return;
          const ofTenant = groups.get(filter.tenant);
          if (ofTenant?.get(group.topic) === group) ofTenant.delete(group.topic);
          if (ofTenant?.size === 0) groups.delete(filter.tenant);
        },
      };
    },
    close() {
      closed = true;
      for (const ofTenant of [...groups.values()]) {
        for (const { sockets } of [...ofTenant.values()]) {
          for (const socket of [...sockets]) socket.close(GOING_AWAY, "the server stops");
        }
      }
    },
    get size() {
      return size;
    },
  };
}
