import { isDeepStrictEqual } from "node:util";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Cluster } from "../../../crds/client/cluster.ts";
import type { EventRecorder } from "../../../crds/client/event-recorder.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Log } from "../../../crds/log.ts";
import { nextConditions, readiness } from "../../../crds/schema/condition.ts";
import type { Trigger, TriggerStatus } from "../../../crds/trigger.ts";
import { sleep } from "../../../crds/waits.ts";
import type { TriggerProblem } from "./trigger-problem.ts";

/** Writes the status of one trigger, as this process sees it. */
export interface TriggerStatusWriter {
  /**
   * Sets the status to served, or to the problem; it is written in the background, only if it differs.
   *
   * @param options.mayPass whether the problem may end by itself. @default false: a person must act
   */
  write(trigger: Trigger, problem: string | undefined, options?: { mayPass?: boolean }): void;
  /** Checks the workload again, and writes a problem again if another process without it has overwritten it. */
  recheck(): void;
}

const MAX_DETAIL = 2048;

/**
 * Makes the writer of a trigger's `phase`, `detail`, `observedGeneration` and `conditions`.
 *
 * If several processes serve a trigger and differ, a problem wins: a process without one writes that once, when it
 * starts or its problem ends, and a process with a problem writes it again.
 */
export function createTriggerStatus(options: {
  cluster: Cluster;
  name: string;
  /** The cached trigger. */
  current: () => Trigger | undefined;
  /** What is wrong with the workload of a trigger that is served. */
  workloadProblemOf: (trigger: Trigger) => TriggerProblem | undefined;
  events: TriggerEvents;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}): TriggerStatusWriter {
  const { cluster, name, current, workloadProblemOf, events, clock, log, signal } = options;
  let reported: { trigger: Trigger; problem: string | undefined; mayPass: boolean } | undefined;
  let desired: Desired | undefined;
  let dirty = false;
  let writing = false;

  function flush(): void {
    dirty = true;
    if (writing) return;
    writing = true;
    run()
      .catch((error: unknown) => {
        if (!signal.aborted) log.error({ trigger: name, error }, "trigger status not written");
      })
      .finally(() => {
        writing = false;
        if (dirty && !signal.aborted) flush();
      });
  }

  async function run(): Promise<void> {
    const backoff = createBackoff({ initialMs: 500, maxMs: 30_000 });
    while (dirty) {
      dirty = false;
      const trigger = current();
      if (desired === undefined || trigger === undefined || trigger.metadata.uid !== desired.uid) return;
      const status = statusPatch(trigger.status, desiredStatus(desired, trigger.status));
      if (status === undefined) continue;
      try {
        await cluster(triggers).of(trigger).patchStatus(status, { precondition: "uid", signal });
      } catch (error) {
        if (isNotFound(error)) return;
        log.warn({ trigger: name, error }, "trigger status not written, retrying");
        dirty = true;
        await sleep(backoff.next(), { clock, signal });
      }
    }
  }

  function problemOf({ trigger, problem, mayPass }: NonNullable<typeof reported>): TriggerProblem | undefined {
    if (problem === undefined || problem === "") return workloadProblemOf(trigger);
    return { reason: "TriggerError", message: problem.slice(0, MAX_DETAIL), mayPass };
  }

  function write(trigger: Trigger, problem: string | undefined, { mayPass = false }: { mayPass?: boolean } = {}): void {
    reported = { trigger, problem, mayPass };
    const { uid, generation } = trigger.metadata;
    const now = problemOf(reported);
    if (now !== undefined && now.message !== desired?.problem?.message) {
      events.record(trigger, { type: "Warning", reason: now.reason, message: now.message });
    }
    desired = { uid, generation, problem: now };
    flush();
  }

  return {
    write,
    recheck() {
      if (reported !== undefined && problemOf(reported)?.message !== desired?.problem?.message)
        write(reported.trigger, reported.problem, reported);
      const status = current()?.status;
      const isHidden = status?.phase !== "Error" || (status.observedGeneration ?? 0) < (desired?.generation ?? 0);
      if (desired?.problem !== undefined && isHidden) flush();
    },
  };
}

interface Desired {
  readonly uid: string | undefined;
  readonly generation: number | undefined;
  readonly problem: TriggerProblem | undefined;
}

/** Records Kubernetes Events about a trigger. */
export interface TriggerEvents {
  record(trigger: Trigger, event: { type: "Normal" | "Warning"; reason: string; message: string }): void;
}

const INTERVAL_MS = 60_000;
const MOST_REMEMBERED = 1024;
/** Messages per trigger and reason in that time: a container chooses their words, and strangers can cause them. */
const MOST_MESSAGES = 5;

/** Writes the same Event at most once a minute, and few similar ones, however many deliveries a stranger sends. */
export function createTriggerEvents(options: { recorder: Pick<EventRecorder, "record">; clock: Clock }): TriggerEvents {
  const { recorder, clock } = options;
  /** When each message was last written, by trigger and reason. */
  const written = new Map<string, Map<string, number>>();
  return {
    record(trigger, event) {
      const key = JSON.stringify([trigger.metadata.uid, event.reason]);
      const now = clock.now();
      const messages = written.get(key) ?? new Map<string, number>();
      for (const [message, at] of messages) if (now - at >= INTERVAL_MS) messages.delete(message);
      if (messages.has(event.message) || messages.size >= MOST_MESSAGES) return;
      messages.set(event.message, now);
      written.delete(key);
      written.set(key, messages);
      const [oldest] = written.keys();
      if (written.size > MOST_REMEMBERED && oldest !== undefined) written.delete(oldest);
      recorder.record({ resource: triggers, object: trigger, ...event });
    },
  };
}

function desiredStatus({ generation, problem }: Desired, before: TriggerStatus | undefined): TriggerStatus {
  const ready =
    problem === undefined
      ? readiness("ready", { reason: "Served", message: "the gateway serves the trigger" })
      : readiness(problem.mayPass ? "reconciling" : "stalled", { reason: problem.reason, message: problem.message });
  return {
    phase: problem === undefined ? "Active" : "Error",
    ...(problem !== undefined && { detail: problem.message }),
    ...(generation !== undefined && { observedGeneration: generation }),
    conditions: nextConditions(before?.conditions, ready, { generation }),
  };
}

/** The smallest merge patch; undefined if nothing differs. */
function statusPatch(status: TriggerStatus = {}, target: TriggerStatus): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {};
  for (const field of ["phase", "detail", "observedGeneration", "conditions"] as const) {
    if (!isDeepStrictEqual(status[field], target[field])) patch[field] = target[field] ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
