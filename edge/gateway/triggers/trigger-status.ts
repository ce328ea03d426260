import { isDeepStrictEqual } from "node:util";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Log } from "../../../crds/log.ts";
import { nextConditions } from "../../../crds/schema/condition.ts";
import type { Trigger, TriggerStatus } from "../../../crds/trigger.ts";
import { sleep } from "../../../crds/waits.ts";
import type { TriggerEvents } from "./trigger-events.ts";

/** The status of one trigger, as this process sees the trigger. */
export interface TriggerStatusWriter {
  /** Shows the trigger as served, or the trouble with it; written in the background, and only where it is not shown already. */
  show(trigger: Trigger, trouble: string | undefined): void;
  /** Looks at the trigger anew: shows what stands in its way by now, and trouble again that another process, which has none, took away. */
  recheck(): void;
}

/** Why a trigger does not do what it says. */
export interface TriggerTrouble {
  /** One word for programs. */
  readonly reason: "TriggerError" | "WorkloadNotFound" | "WorkloadTerminating";
  readonly message: string;
}

const MAX_DETAIL = 2048;

/**
 * Makes the writer of a trigger's `phase`, `detail`, `observedGeneration` and `conditions`.
 *
 * Where several processes serve a trigger and differ, trouble wins: a process that has none writes so once, when it starts or its trouble
 * ends, and one that has trouble writes it again.
 */
export function createTriggerStatus(options: {
  client: ClusterClient;
  namespace: string;
  name: string;
  /** The trigger as last seen. */
  held: () => Trigger | undefined;
  /** Takes over what a write made. */
  put: (trigger: Trigger) => void;
  /** What stands in the way of a trigger that is served, and may go by itself. */
  obstacleOf: (trigger: Trigger) => TriggerTrouble | undefined;
  events: TriggerEvents;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}): TriggerStatusWriter {
  const { client, namespace, name, held, put, obstacleOf, events, clock, log, signal } = options;
  let given: { trigger: Trigger; trouble: string | undefined } | undefined;
  let shown: Shown | undefined;
  let dirty = false;
  let writing = false;

  function write(): void {
    dirty = true;
    if (writing) return;
    writing = true;
    run()
      .catch((error: unknown) => {
        if (!signal.aborted) log.error({ trigger: name, error }, "status of a trigger not written");
      })
      .finally(() => {
        writing = false;
        if (dirty && !signal.aborted) write();
      });
  }

  async function run(): Promise<void> {
    const backoff = createBackoff({ initialMs: 500, maxMs: 30_000 });
    while (dirty) {
      dirty = false;
      const trigger = held();
      if (shown === undefined || trigger === undefined || trigger.metadata.uid !== shown.uid) return;
      const status = changes(trigger.status, wanted(shown, trigger.status));
      if (status === undefined) continue;
      try {
        const body = { metadata: { uid: trigger.metadata.uid }, status };
        put(await client.patch(triggers, { namespace, name }, { type: "merge", subresource: "status", body, signal }));
      } catch (error) {
        if (isNotFound(error)) return;
        log.warn({ trigger: name, error }, "status of a trigger not written, it is tried again");
        dirty = true;
        await sleep(backoff.next(), { clock, signal });
      }
    }
  }

  function found({ trigger, trouble }: NonNullable<typeof given>): TriggerTrouble | undefined {
    if (trouble === undefined || trouble === "") return obstacleOf(trigger);
    return { reason: "TriggerError", message: trouble.slice(0, MAX_DETAIL) };
  }

  function show(trigger: Trigger, trouble: string | undefined): void {
    given = { trigger, trouble };
    const { uid, generation } = trigger.metadata;
    const now = found(given);
    if (now !== undefined && now.message !== shown?.trouble?.message) {
      events.record(trigger, { type: "Warning", ...now });
    }
    shown = { uid, generation, trouble: now };
    write();
  }

  return {
    show,
    recheck() {
      if (given !== undefined && found(given)?.message !== shown?.trouble?.message) show(given.trigger, given.trouble);
      const status = held()?.status;
      const isHidden = status?.phase !== "Error" || (status.observedGeneration ?? 0) < (shown?.generation ?? 0);
      if (shown?.trouble !== undefined && isHidden) write();
    },
  };
}

interface Shown {
  readonly uid: string | undefined;
  readonly generation: number | undefined;
  readonly trouble: TriggerTrouble | undefined;
}

function wanted({ generation, trouble }: Shown, before: TriggerStatus | undefined): TriggerStatus {
  const ready =
    trouble === undefined
      ? ({ type: "Ready", status: "True", reason: "Served", message: "the gateway serves the trigger" } as const)
      : ({ type: "Ready", status: "False", ...trouble } as const);
  return {
    phase: trouble === undefined ? "Active" : "Error",
    ...(trouble !== undefined && { detail: trouble.message }),
    ...(generation !== undefined && { observedGeneration: generation }),
    conditions: nextConditions(before?.conditions, [ready], { generation }),
  };
}

/** The smallest merge patch; undefined where nothing differs. */
function changes(status: TriggerStatus = {}, target: TriggerStatus): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {};
  for (const field of ["phase", "detail", "observedGeneration", "conditions"] as const) {
    if (!isDeepStrictEqual(status[field], target[field])) patch[field] = target[field] ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
