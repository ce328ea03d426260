import { randomBytes } from "node:crypto";
import type { Claim } from "../../crds/claim.ts";
import type { Log } from "../../crds/log.ts";
import type { EventSink } from "../../crds/sink/event-sink.ts";
import type { OutgoingEvent } from "../../crds/sink/outgoing-event.ts";
import { within } from "../../crds/waits.ts";

/** How long a claim waits for its event to be in a file. */
const WRITE_LIMIT_MS = 2000;
/** For clocks that differ, and events that are just being made. */
const NOTE_AGE_MS = 60_000;
/** Those that follow from the claims. */
const TYPES = ["claim.active", "claim.error"] as const;

/**
 * Tells the sink what becomes of claims. `active`, `failed` and `released` wait until the event is in a file, at most
 * 2 s: wait for them before the next write to the claim, after which it may not show any more what the event tells.
 */
export interface ClaimEvents {
  /** Call it with an Active claim. */
  active(claim: Claim): Promise<void>;
  /** Call it with a claim in `Error`. */
  failed(claim: Claim): Promise<void>;
  /** Call it before the finalizer of a released claim is removed. */
  released(claim: Claim): Promise<void>;
  checkpointFailed(claim: Claim, why: { readonly reason: string; readonly message: string }): void;
  /**
   * Notes on the operators' Lease up to when the sink has the events of claims. If some were lost, sends those again
   * that follow from the claims.
   *
   * @param now milliseconds since the epoch
   */
  follow(now: number): Promise<void>;
}

/**
 * An event comes after the write of a claim's status, and waits in files that end with the pod. So a new leader sends
 * the events again that follow from the claims, from the time that the Lease says: their ids are the same.
 *
 * @param options.since what the Lease says
 * @param options.note writes it to the Lease
 */
export function createClaimEvents({
  sink,
  claims,
  since,
  note,
  log,
}: {
  sink: EventSink;
  claims: () => Iterable<Claim>;
  since: string | undefined;
  note: (until: string) => Promise<void>;
  log: Log;
}): ClaimEvents {
  let told = since;
  let lost = sink.lost();
  /** Whether the disk has not answered the last event that was waited for. */
  let isStuck = false;

  async function add(
    claim: Claim,
    { id, data, ...event }: Pick<OutgoingEvent, "type" | "time" | "id" | "data">,
  ): Promise<void> {
    const { metadata, spec, status } = claim;
    const whose = {
      claim: metadata.name,
      tenantId: spec.tenantId,
      workload: spec.workloadRef,
      labels: spec.labels ?? {},
    };
    const { instanceId: instance, source, claimedAt } = status ?? {};
    await sink.add({
      ...event,
      ...{ id: `${metadata.uid}/${id}`, subject: metadata.name },
      data: { ...whose, instance, source, claimedAt, ...data },
    });
  }

  function failedAt({ status }: Claim): string | undefined {
    return status?.phase === "Error" ? status.timeline?.at(-1)?.at : undefined;
  }

  async function active(claim: Claim): Promise<void> {
    const time = claim.status?.claimedAt;
    if (time !== undefined) await add(claim, { type: "claim.active", id: `active/${time}`, time, data: {} });
  }

  async function failed(claim: Claim): Promise<void> {
    const { reason, message } = claim.status ?? {};
    const time = failedAt(claim);
    if (time !== undefined)
      await add(claim, { type: "claim.error", id: `error/${time}`, time, data: { reason, message } });
  }

  async function released(claim: Claim): Promise<void> {
    const { files, snapshot } = claim.status ?? {};
    const time = new Date().toISOString();
    await add(claim, { type: "claim.released", id: "released", time, data: { files, snapshot } });
  }

  async function untilWritten(added: Promise<void>, claim: Claim): Promise<void> {
    if (isStuck || (await within(added, WRITE_LIMIT_MS))) return;
    isStuck = true;
    void added.then(() => {
      isStuck = false;
    });
    log.warn({ claim: claim.metadata.name }, "the claim goes on before its event is in a file");
  }

  repeat();
  return {
    active: (claim) => untilWritten(active(claim), claim),
    failed: (claim) => untilWritten(failed(claim), claim),
    released: (claim) => untilWritten(released(claim), claim),
    checkpointFailed(claim, why) {
      const id = `checkpoint/${randomBytes(8).toString("hex")}`;
      void add(claim, { type: "checkpoint.failed", id, time: new Date().toISOString(), data: why });
    },
    async follow(now) {
      if (sink.lost() > lost) {
        lost = sink.lost();
        sink.forget(TYPES);
        repeat();
      }
      const reached = new Date(now - NOTE_AGE_MS).toISOString();
      const pending = sink.pending(TYPES);
      const until = pending === undefined || pending > reached ? reached : new Date(`${pending}Z`).toISOString();
      if (until === told) return;
      await note(until);
      told = until;
    },
  };

  function repeat(): void {
    const isLate = (time: string | undefined) => time !== undefined && told !== undefined && time >= told;
    for (const claim of claims()) {
      if (isLate(claim.status?.claimedAt)) void active(claim);
      if (isLate(failedAt(claim))) void failed(claim);
    }
  }
}
