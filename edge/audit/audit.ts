import { randomUUID } from "node:crypto";
import type { Clock } from "../../crds/client/clock.ts";
import type { EventSink } from "../../crds/sink/event-sink.ts";
import type { Actor, Caller } from "../access/actor.ts";
import { createClientAddress } from "../http/client-address.ts";
import type { SocketListener } from "../http/event-socket.ts";
import { isJson } from "../http/response.ts";
import type { Network } from "../proxy/entry/origin.ts";
import { createAuditMemory } from "./audit-memory.ts";
import type { AuditOutput } from "./audit-output.ts";
import { type Act, type AuditActor, type AuditRecord, objectReader, outcomeOf } from "./audit-record.ts";
import { type AuditNote, createShowText, lineOf } from "./audit-text.ts";

/** What becomes the record of one request. */
export interface Trail {
  /** Names what the request is about beyond its path: names and ids only, never contents. */
  about(object: AuditedObject): void;
  /** Where the pod of a claim came from. */
  from(source: string | undefined): void;
  /** Who made the request, on a public route. */
  by(actor: Actor): void;
  /** A listener that records the end of its WebSocket as well. */
  follow(listener: SocketListener): SocketListener;
  /** Makes the record. @param answer.status that of the response, unless the protocol has another place for it */
  answered(answer: { readonly response: Response; readonly status: number; readonly requestId: string }): void;
}

/** A request as the router hands it over; `route`, `params` and `caller` are set before it is answered. */
interface AuditedRequest extends Request {
  readonly route?: string;
  readonly params?: Readonly<Record<string, string | undefined>>;
  readonly caller?: Caller;
}

type AuditedObject = Readonly<Record<string, string | undefined>>;

/** The audit log of an edge. */
export interface Audit {
  /** @param peer finds the client's address, as long as it is connected */
  begin(request: AuditedRequest, act: Act, peer?: (request: Request) => string | undefined): Trail;
  /** The last records of this process, newest first, with their ids. */
  newest(before?: number): readonly { readonly id: number; readonly line: string }[];
  /** From then on no record is missing, in milliseconds since the epoch. */
  completeSince(): number;
  /** Requests without a valid key that were not recorded since the start. */
  omitted(): number;
  /** Writes what is left. */
  close(): Promise<void>;
}

/** Strangers' requests that are recorded at once, and then one each second. */
const STRANGERS = { burst: 60, perSecond: 1 };
/** When the number of omitted ones is written. */
const NOTE_MS = 60_000;

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);

/** @param options.steadyNow milliseconds, monotonic. @default performance.now */
export function createAudit(options: {
  /** @default only memory */
  output?: AuditOutput | undefined;
  /** Gets what is written too. @default not sent */
  sink?: Pick<EventSink, "add"> | undefined;
  /** Whether TENANCY_API_KEY is set; without it every caller is `anonymous`. */
  asksForKey: boolean;
  /** TENANCY_API_KEY, so that no record shows it. */
  apiKey?: string | undefined;
  /** Proxies whose `X-Forwarded-For` counts. */
  trusted?: readonly Network[];
  /** Whose an instance is, as far as this process sees it. */
  ownerOf?: (instance: string) => { readonly tenant?: string | undefined; readonly workload?: string | undefined };
  clock: Clock;
  steadyNow?: () => number;
  onOmitted?: () => void;
}): Audit {
  const { output, sink, asksForKey, trusted = [], ownerOf, clock, onOmitted } = options;
  const steadyNow = options.steadyNow ?? performance.now.bind(performance);
  const show = createShowText(options.apiKey);
  const memory = createAuditMemory({ now: clock.now });
  const addressOf = createClientAddress({ trusted });
  const readers = new Map<string, ReturnType<typeof objectReader>>();
  const strangers = createAllowance(STRANGERS, steadyNow);
  let omitted = 0;
  let omittedSinceNote = 0;
  let cancelNote: (() => void) | undefined;

  function write(content: AuditRecord | AuditNote): string {
    const line = lineOf(content);
    output?.write(line);
    const subject = "route" in content ? content.route : "audit";
    void sink?.add({ type: "audit", id: `audit/${randomUUID()}`, subject, time: content.time, data: content });
    return line;
  }

  function time(): string {
    return new Date(clock.now()).toISOString();
  }

  function writeNote(): void {
    cancelNote = undefined;
    const note: AuditNote = { time: time(), omitted: omittedSinceNote, why: "unauthenticated" };
    if (omittedSinceNote > 0) write(note);
    omittedSinceNote = 0;
  }

  function record(made: AuditRecord): void {
    const { kind, id = "" } = made.actor;
    if (kind === "unknown" && !strangers()) {
      omitted += 1;
      omittedSinceNote += 1;
      onOmitted?.();
      cancelNote ??= clock.after(NOTE_MS, writeNote);
      return;
    }
    memory.add(write(made), `${kind} ${id}`);
  }

  function actorOf(actor: Actor | undefined): AuditActor {
    if (actor === undefined) return { kind: "unknown" };
    if (!asksForKey) return { kind: "anonymous" };
    return { kind: actor.kind, id: show(actor.id) };
  }

  function objectOf({ route = "*", params = {} }: AuditedRequest): AuditedObject {
    let read = readers.get(route);
    if (read === undefined) {
      read = objectReader(route);
      readers.set(route, read);
    }
    return read(params);
  }

  function withOwner(object: AuditedObject): AuditedObject {
    const { instance, tenant } = object;
    return instance === undefined || tenant !== undefined ? object : { ...object, ...ownerOf?.(instance) };
  }

  return {
    begin(request, act, peer) {
      const startedAt = steadyNow();
      const { method } = request;
      const address = addressOf(request, peer?.(request));
      // Now, since a request may delete the instance.
      let object = withOwner(objectOf(request));
      let source: string | undefined;
      let actor: Actor | undefined;
      let isFollowed = false;
      /** What the end of a WebSocket repeats; undefined until the response is there. */
      let begun: Omit<AuditRecord, "time" | "stage" | "ms"> | undefined;
      let end: { closeCode?: number } | undefined;

      function finish(stage: AuditRecord["stage"], more: { closeCode?: number } = {}): void {
        if (begun === undefined) return;
        const ms = Math.round((steadyNow() - startedAt) * 10) / 10;
        // Time and actor come first: people read these lines too.
        const { requestId, ...rest } = begun;
        record({ time: time(), requestId, stage, ...rest, ...more, ms });
      }

      return {
        about(more) {
          object = { ...object, ...more };
        },
        from(given) {
          source = given;
        },
        by(given) {
          actor = given;
        },
        follow(listener) {
          isFollowed = true;
          let closeCode: number | undefined;
          return {
            ...listener,
            onOpen(socket) {
              const close = (code: number, reason: string): void => {
                closeCode ??= code;
                socket.close(code, reason);
              };
              listener.onOpen(Object.create(socket, { close: { value: close } }));
            },
            onClose() {
              listener.onClose();
              if (end !== undefined) return;
              end = closeCode === undefined ? {} : { closeCode };
              finish("ResponseComplete", end);
            },
          };
        },
        answered({ response, status, requestId }) {
          const { headers } = response;
          const isStream = isFollowed ? status === 101 : !isJson(headers) && response.body !== null;
          begun = {
            requestId: show(requestId),
            actor: actorOf(actor ?? request.caller?.actor),
            ...(address !== undefined && { address }),
            act,
            method: METHODS.has(method) ? method : "_OTHER",
            route: request.route ?? "*",
            object: Object.fromEntries(
              Object.entries(withOwner(object)).flatMap(([name, value]) =>
                value === undefined ? [] : [[name, show(value)]],
              ),
            ),
            status,
            outcome: outcomeOf(status),
            ...(source !== undefined && { source }),
          };
          finish(isStream ? "ResponseStarted" : "ResponseComplete");
          if (isStream && end !== undefined) finish("ResponseComplete", end);
        },
      };
    },
    newest: memory.newest,
    completeSince: memory.completeSince,
    omitted: () => omitted,
    async close() {
      cancelNote?.();
      writeNote();
      await output?.close();
    },
  };
}

/** Returns a function that says whether one more is allowed. */
function createAllowance({ burst, perSecond }: { burst: number; perSecond: number }, now: () => number): () => boolean {
  let left = burst;
  let countedAt = now();
  return () => {
    left = Math.min(burst, left + ((now() - countedAt) / 1000) * perSecond);
    countedAt = now();
    if (left < 1) return false;
    left -= 1;
    return true;
  };
}
