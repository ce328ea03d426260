import type { Clock } from "../../../crds/client/clock.ts";
import { type EventSocket, MAX_WAITING_BYTES, type SocketListener } from "../../http/event-socket.ts";
import { type EventFilter, matches } from "./event-filter.ts";
import { createEventRing, type EventType, type StoredEvent } from "./event-ring.ts";

/** Sends events of the cluster to the clients of `/ws`. */
export interface EventHub {
  /** Sends the event to all clients whose filter matches. */
  publish(event: { type: EventType; tenant: string | undefined; workload: string | undefined; object: object }): void;
  /**
   * Whether an event can reach a client: one is connected, or one left recently and may return for missed events. While
   * it is false, events need not be published, and ids from before are not replayed later.
   */
  isHeard(): boolean;
  /**
   * The listener of a new client. `since` is the id of the last message that it received.
   *
   * @param options.isStranger whether it has no key although one is set @default false
   */
  client(options: { filter: EventFilter; since: string | undefined; isStranger?: boolean }): SocketListener;
  /** Closes every socket with the code for a stopping server. */
  close(): void;
  /** Number of listening clients. */
  readonly size: number;
  /** Whether there is no capacity for another client. Connections that are closed but have not ended count too. */
  readonly isFull: boolean;
  /** The same for strangers, who may use only half of the capacity. */
  readonly isFullForStrangers: boolean;
}

/** A connection. */
interface Client {
  readonly socket: EventSocket;
  readonly isStranger: boolean;
  /** Undefined while it does not listen: at first, and after it was closed. */
  group: Group | undefined;
  isCut: boolean;
  /** Ends the pause after a pong; undefined outside a pause. */
  endPause: (() => void) | undefined;
  /** Whether a ping arrived during the pause, so that a pong is due at its end. */
  isAsking: boolean;
}

/** Clients with the same filter. */
interface Group {
  readonly filter: EventFilter;
  readonly topic: string;
  readonly clients: Set<Client>;
}

/** The message with which a client asks for a pong; all others are ignored. */
const PING = "ping";
/**
 * The pause between two pongs on a socket; pings during it share the next pong. Strangers may connect, and a pong costs
 * far more than a ping: on Node, 1.7 MB of pings per second stopped the edge when each was answered.
 */
const PONG_PAUSE_MS = 100;
/** Each costs about 20 KB, whether it reads or not. */
export const MAX_CLIENTS = 4096;
/** How long events are stored after the last client has left. */
const RETURN_MS = 5 * 60_000;
const MAX_EVENTS = 4096;
const MAX_CHARACTERS = 1024 * 1024;
const GOING_AWAY = 1001;

/**
 * Makes a hub. Clients with the same filter share a group, found by its tenant, so that an event costs only as much as
 * its own listeners, and a message is serialized once.
 *
 * @param options.instance a name of this process: ids of another process cannot be replayed here
 * @param options.maxWaitingBytes limit of unread bytes of all clients @default 64 MiB
 * @param options.standing further fields of a pong
 */
export function createEventHub(options: {
  instance: string;
  clock: Clock;
  maxWaitingBytes?: number;
  standing: () => object;
}): EventHub {
  const { instance, clock, standing, maxWaitingBytes = 64 * 1024 * 1024 } = options;
  const ring = createEventRing({ events: MAX_EVENTS, characters: MAX_CHARACTERS });
  /** By the tenant of the filter, then by topic. */
  const groups = new Map<string | undefined, Map<string, Group>>();
  /** Includes closed clients that have not ended yet. */
  const clients = new Set<Client>();
  /** Bytes that waited for clients when last counted, plus bytes sent since: an upper bound of the unread bytes. */
  let waitingBytes = 0;
  let sentBytes = 0;
  let count = 0;
  /** When the last client left. */
  let leftAt = Number.NEGATIVE_INFINITY;
  /** Whether a client may have an id that can be replayed. */
  let isAwaited = false;
  let size = 0;
  /** Number of strangers among `clients`. */
  let strangers = 0;
  let closed = false;
  const idOf = (number: number): string => `${instance}-${number}`;
  const now = (): string => new Date(clock.now()).toISOString();

  function send(group: Group, text: string): void {
    makeRoom(text.length * group.clients.size);
    for (const { socket } of group.clients) {
      if (socket.fanOut === undefined) break;
      socket.fanOut.publish(group.topic, text);
      return;
    }
    for (const client of group.clients) {
      if (client.socket.waitingBytes > MAX_WAITING_BYTES) cut(client);
      else client.socket.send(text);
    }
  }

  /**
   * Closes the slowest clients if this many more bytes could exceed the limit: down to half, so that the clients are
   * rarely scanned.
   */
  function makeRoom(bytes: number): void {
    sentBytes += bytes;
    if (waitingBytes + sentBytes <= maxWaitingBytes) return;
    sentBytes = bytes;
    const slowest = [...clients].map((client) => ({ client, waiting: client.socket.waitingBytes }));
    slowest.sort((a, b) => b.waiting - a.waiting);
    waitingBytes = slowest.reduce((sum, { waiting }) => sum + waiting, 0);
    for (const { client, waiting } of slowest) {
      if (waitingBytes <= maxWaitingBytes / 2 || waiting === 0) return;
      if (client.isCut) continue;
      cut(client);
      waitingBytes -= waiting - client.socket.waitingBytes;
    }
  }

  function answerPing(client: Client): void {
    client.isAsking = false;
    client.endPause = clock.after(PONG_PAUSE_MS, () => {
      client.endPause = undefined;
      if (client.isAsking) answerPing(client);
    });
    const pong = JSON.stringify({ id: idOf(count), type: "pong", time: now(), ...standing() });
    makeRoom(pong.length);
    if (client.isCut) return;
    if (client.socket.waitingBytes > MAX_WAITING_BYTES) cut(client);
    else client.socket.send(pong);
  }

  function cut(client: Client): void {
    client.isCut = true;
    client.endPause?.();
    leave(client);
    client.socket.cut();
  }

  function leave(client: Client): void {
    const { group } = client;
    if (group === undefined) return;
    client.group = undefined;
    size -= 1;
    group.clients.delete(client);
    if (group.clients.size > 0) return;
    const { tenant } = group.filter;
    const ofTenant = groups.get(tenant);
    if (ofTenant?.get(group.topic) === group) ofTenant.delete(group.topic);
    if (ofTenant?.size === 0) groups.delete(tenant);
  }

  function groupOf(filter: EventFilter): Group {
    const topic = JSON.stringify([filter.tenant, filter.workload, filter.types, filter.tenants, filter.workloads]);
    const ofTenant = groups.get(filter.tenant) ?? new Map<string, Group>();
    groups.set(filter.tenant, ofTenant);
    const group = ofTenant.get(topic) ?? { filter, topic, clients: new Set() };
    ofTenant.set(topic, group);
    return group;
  }

  function replay(socket: EventSocket, filter: EventFilter, since: string): void {
    const [word, number] = [since.slice(0, since.lastIndexOf("-")), since.slice(since.lastIndexOf("-") + 1)];
    const missed = word === instance && /^\d{1,15}$/.test(number) ? ring.after(Number(number)) : undefined;
    if (missed === undefined) socket.send(JSON.stringify({ id: idOf(count), type: "resync", time: now() }));
    for (const event of missed ?? []) {
      if (!matches(filter, event)) continue;
      makeRoom(event.text.length);
      socket.send(event.text);
    }
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
    isHeard() {
      if (clients.size > 0 || clock.now() - leftAt < RETURN_MS) return true;
      if (isAwaited) {
        isAwaited = false;
        count += 1;
        ring.skip();
      }
      return false;
    },
    client({ filter, since, isStranger = false }) {
      let client: Client | undefined;
      return {
        onOpen(socket) {
          if (closed) {
            socket.close(GOING_AWAY, "the server is stopping");
            return;
          }
          client = { socket, isStranger, group: undefined, isCut: false, endPause: undefined, isAsking: false };
          clients.add(client);
          if (isStranger) strangers += 1;
          isAwaited = true;
          // Before it listens, so that no newer event arrives before the missed ones.
          if (since !== undefined) replay(socket, filter, since);
          if (client.isCut) return;
          client.group = groupOf(filter);
          client.group.clients.add(client);
          socket.fanOut?.subscribe(client.group.topic);
          size += 1;
        },
        onMessage(text) {
          if (text !== PING || client === undefined || client.isCut) return;
          if (client.endPause === undefined) answerPing(client);
          else client.isAsking = true;
        },
        onClose() {
          if (client === undefined) return;
          client.endPause?.();
          leave(client);
          clients.delete(client);
          if (client.isStranger) strangers -= 1;
          leftAt = clock.now();
          client = undefined;
        },
      };
    },
    close() {
      closed = true;
      for (const { socket, isCut } of [...clients]) if (!isCut) socket.close(GOING_AWAY, "the server is stopping");
    },
    get size() {
      return size;
    },
    get isFull() {
      return clients.size >= MAX_CLIENTS;
    },
    get isFullForStrangers() {
      return clients.size >= MAX_CLIENTS || strangers >= MAX_CLIENTS / 2;
    },
  };
}
