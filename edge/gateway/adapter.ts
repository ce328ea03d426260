import type { Clock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import type { Span } from "../../crds/tracing/tracer.ts";
import type { Trigger } from "../../crds/trigger.ts";
import type { Delivery } from "../api/deliveries.ts";
import type { DriverReply } from "./drivers/driver.ts";

/** An event as received by an adapter, before its tenant is known. */
export interface IncomingEvent {
  /** Identifies the event; the same for every delivery of it. */
  readonly id: string;
  /** The object to which the path `spec.tenant.from` applies. */
  readonly fields: unknown;
  readonly text?: string | undefined;
  readonly data: unknown;
  readonly receivedAt: string;
  /** Sent by a caller of the API, not by the trigger's source. */
  readonly test?: true;
}

/** Result of an event. */
export type Outcome =
  | { readonly kind: "answered"; readonly reply: DriverReply }
  /** A guard denied it; the message is for the source. */
  | { readonly kind: "denied"; readonly message: string }
  /** The event has no valid tenant id: every delivery of it would be refused. */
  | { readonly kind: "refused"; readonly message: string }
  /**
   * The claim or the driver failed, or too many events wait. The message contains no internals; the status is for
   * sources that use HTTP.
   */
  | { readonly kind: "failed"; readonly message: string; readonly status?: 429 | 502 | 503 | 504 };

/** Options of a run. */
export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onColdStart?: (() => void) | undefined;
  readonly onEnded?: ((delivery: Delivery) => void) | undefined;
  /** Span of the request that brought the event. @default the event starts a trace if events are traced */
  readonly span?: Span | undefined;
}

/** What every adapter receives. */
export interface AdapterContext {
  /** As of the start of the adapter: a changed spec starts a new adapter. */
  readonly trigger: Trigger;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted when the trigger is edited or deleted, or the edge stops. */
  readonly signal: AbortSignal;
  /**
   * Runs an event: tenant, guards, claim and driver. Waits for a slot while too many are in flight.
   *
   * @param options.onColdStart called once when the tenant has no pod yet and one is being started
   * @param options.onEnded called with the delivery log's entry
   * @throws the signal's reason when it is aborted
   */
  run(event: IncomingEvent, options: RunOptions): Promise<Outcome>;
  /**
   * Reads a Secret's value, and calls `onChange` whenever it changes or is deleted.
   *
   * @throws Error that says what is missing, never a value
   */
  readSecret(ref: { name: string; key: string }, options?: { onChange?: () => void }): Promise<string>;
  /** Reads the adapter's state in the trigger's status from the API server. */
  readState(): Promise<Record<string, unknown>>;
  /**
   * Replaces the state, at most 64 KiB, with the precondition that no other process has written it since it was read.
   *
   * @throws ApiError 409 if another process has
   */
  writeState(state: Record<string, unknown>): Promise<void>;
  /**
   * Runs the work while this process holds the Lease of that name, and then releases it; the work's signal is aborted
   * when the Lease cannot be renewed. Retries until the adapter is stopped.
   */
  whileHolding(lease: string, work: (signal: AbortSignal) => Promise<void>): Promise<void>;
  /**
   * Sets the trigger's status to Error with the problem, or to Active if it is undefined.
   *
   * @param options.mayPass whether the problem may end by itself. @default false: a person must act
   */
  report(problem: string | undefined, options?: { mayPass?: boolean }): void;
}

/** A running adapter of a trigger. */
export interface Adapter {
  /** Resolves when the adapter has ended. */
  readonly done: Promise<void>;
}

/** Starts serving a trigger. @throws Error with the trigger's problem, for its status */
export type StartAdapter = (context: AdapterContext) => Adapter | Promise<Adapter>;
