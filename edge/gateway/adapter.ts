import type { Clock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import type { Span } from "../../crds/tracing/tracer.ts";
import type { Trigger } from "../../crds/trigger.ts";
import type { Delivery } from "../api/deliveries.ts";
import type { DriverReply } from "./drivers/driver.ts";

/** An event as an adapter received it, before it has a tenant. */
export interface IncomingEvent {
  /** Identifies the event: the same however often its source delivers it. */
  readonly id: string;
  /** The object in which `spec.tenant.from` is a path. */
  readonly fields: unknown;
  readonly text?: string | undefined;
  readonly data: unknown;
  readonly receivedAt: string;
  /** Sent by a caller of the API and not by the trigger's source. */
  readonly test?: true;
}

/** What became of an event. */
export type Outcome =
  | { readonly kind: "answered"; readonly reply: DriverReply }
  /** A guard denied it; the message is for the source. */
  | { readonly kind: "denied"; readonly message: string }
  /** The event has no valid tenant id: another delivery of it would be refused too. */
  | { readonly kind: "refused"; readonly message: string }
  /**
   * The claim or the driver failed, or too many wait; the message holds no internals, and the status is for sources
   * that speak HTTP.
   */
  | { readonly kind: "failed"; readonly message: string; readonly status?: 429 | 502 | 503 | 504 };

/** How an event is run. */
export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onColdStart?: (() => void) | undefined;
  readonly onEnded?: ((delivery: Delivery) => void) | undefined;
  /** Of the request that brought the event. @default the event begins a trace, where events are traced */
  readonly span?: Span | undefined;
}

/** What every adapter works with. */
export interface AdapterContext {
  /** As it was when the adapter was started: a changed spec starts a new adapter. */
  readonly trigger: Trigger;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted when the trigger is edited or deleted, or the edge stops. */
  readonly signal: AbortSignal;
  /**
   * Takes an event through tenant, guards, claim and driver. Waits for a slot while too many are in flight.
   *
   * @param options.onColdStart called once when the tenant has no pod yet and one is being started
   * @param options.onEnded called with what is logged of it
   * @throws the signal's reason when it is aborted
   */
  run(event: IncomingEvent, options: RunOptions): Promise<Outcome>;
  /**
   * Reads a Secret's value, and calls `onChange` whenever it changes or is deleted.
   *
   * @throws Error that says what is missing, never a value
   */
  readSecret(ref: { name: string; key: string }, options?: { onChange?: () => void }): Promise<string>;
  /** What the trigger's status holds for this adapter, read from the API server. */
  readState(): Promise<Record<string, unknown>>;
  /**
   * Writes it, whole and at most 64 KiB, with the precondition that nobody else has written it since it was read.
   *
   * @throws ApiError 409 where somebody has
   */
  writeState(state: Record<string, unknown>): Promise<void>;
  /**
   * Runs the work while this process holds the Lease of that name, and releases it at the end; the work's signal is
   * aborted when the Lease cannot be renewed. Retries until the adapter is stopped.
   */
  whileHolding(lease: string, work: (signal: AbortSignal) => Promise<void>): Promise<void>;
  /**
   * Sets the trigger's status to Error with the problem, or to Active where it is undefined.
   *
   * @param options.mayPass whether it may end without anybody's doing. @default a person has to act
   */
  report(problem: string | undefined, options?: { mayPass?: boolean }): void;
}

/** A trigger being served. */
export interface Adapter {
  /** Resolves when the adapter has ended. */
  readonly done: Promise<void>;
}

/** Starts serving a trigger. @throws Error that says what is wrong with the trigger, for its status */
export type StartAdapter = (context: AdapterContext) => Adapter | Promise<Adapter>;
