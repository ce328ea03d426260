import { randomBytes } from "node:crypto";
import type { Claim } from "../../crds/claim.ts";
import type { Log } from "../../crds/log.ts";
import type { EventSink } from "../../crds/sink/event-sink.ts";
import type { OutgoingEvent } from "../../crds/sink/outgoing-event.ts";
import { within } from "../../crds/waits.ts";

/** How long a release waits for its event to be in a file. */
const WRITE_LIMIT_MS = 2000;

/** Tells the sink what becomes of claims. */
export interface ClaimEvents {
  /** Call it with an Active claim. */
  active(claim: Claim): void;
  /** Call it with a claim in `Error`. */
  failed(claim: Claim): void;
  /** Call it before the finalizer of a released claim is removed. Waits at most 2 s. */
  released(claim: Claim): Promise<void>;
  checkpointFailed(claim: Claim, why: { readonly reason: string; readonly message: string }): void;
  /**
   * Sends the events again of claims that became Active or failed after `since`, in milliseconds since the epoch: a
   * leader may have been killed between its write and the event.
   */
  repeat(claims: Iterable<Claim>, since: number): void;
}

export function createClaimEvents({ sink, log }: { sink: EventSink; log: Log }): ClaimEvents {
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

  function activeAt({ status }: Claim): string | undefined {
    return status?.phase === "Active" ? status.claimedAt : undefined;
  }

  function failedAt({ status }: Claim): string | undefined {
    return status?.phase === "Error" ? status.timeline?.at(-1)?.at : undefined;
  }

  function active(claim: Claim): void {
    const time = activeAt(claim);
    if (time !== undefined) void add(claim, { type: "claim.active", id: `active/${time}`, time, data: {} });
  }

  function failed(claim: Claim): void {
    const { reason, message } = claim.status ?? {};
    const time = failedAt(claim);
    if (time !== undefined)
      void add(claim, { type: "claim.error", id: `error/${time}`, time, data: { reason, message } });
  }

  return {
    active,
    failed,
    async released(claim) {
      const { files, snapshot } = claim.status ?? {};
      const time = new Date().toISOString();
      const added = add(claim, { type: "claim.released", id: "released", time, data: { files, snapshot } });
      if (!(await within(added, WRITE_LIMIT_MS)))
        log.warn({ claim: claim.metadata.name }, "the release goes on before its event is in a file");
    },
    checkpointFailed(claim, why) {
      const id = `checkpoint/${randomBytes(8).toString("hex")}`;
      void add(claim, { type: "checkpoint.failed", id, time: new Date().toISOString(), data: why });
    },
    repeat(claims, since) {
      const isLate = (time: string | undefined) => time !== undefined && Date.parse(time) >= since;
      for (const claim of claims) {
        if (isLate(activeAt(claim))) active(claim);
        if (isLate(failedAt(claim))) failed(claim);
      }
    },
  };
}
