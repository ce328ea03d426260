import { type ClaimKey, canonicalClaim } from "../../../crds/claims/claim-key.ts";
import { isNamed } from "../../../crds/snapshots/version-names.ts";
import { sleep } from "../../../crds/waits.ts";
import { discardFiles } from "../../api/claims/discard.ts";
import { findClaims, releaseTenant } from "../../api/claims/release-tenant.ts";
import { findInstance } from "../../api/instances/instance.ts";
import { destroyInstance } from "../../api/instances/routes.ts";
import { deleteSnapshot } from "../../api/snapshots/routes.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Route } from "../../http/router.ts";
import { sandboxRecord } from "../sandbox-record.ts";
import type { ControlServices } from "./control-services.ts";
import { findSandbox, isMade } from "./sandbox.ts";
import { sandboxKey, sandboxNotFound, useOne } from "./sandbox-access.ts";

const MOST_TRIES = 8;
const PAUSE_MS = 100;

/** `DELETE /sandboxes/{id}`. */
export function killRoute(services: ControlServices): Route {
  return {
    method: "DELETE",
    path: "/e2b/sandboxes/:sandbox",
    access: useOne,
    async handle(request, { clientGone = request.signal, mayBeSilent }) {
      const key = sandboxKey(request);
      mayBeSilent?.();
      const claim = canonicalClaim(await findClaims(key, services));
      const found = claim === undefined ? await findSandbox(key, services, clientGone) : undefined;
      if (claim === undefined && found === undefined) throw sandboxNotFound(request);
      const made = found === undefined ? claim !== undefined && sandboxRecord(claim)?.made === true : isMade(found);
      await killSandbox(key, services, { made, clientGone });
      return new Response(null, { status: 204 });
    },
  };
}

/**
 * Ends a sandbox. Of a tenant that was made for it the pod goes at once, and then all saved files, unless a snapshot is
 * among them: those stay with it, since the store deletes all of a tenant's versions or none. A tenant that has a name
 * of its own is released, which saves its files; they outlive the sandbox.
 *
 * It can be repeated: what was done before is passed over.
 *
 * @throws HttpError 504 if the release takes longer than a call waits; it goes on. As the store does
 */
export async function killSandbox(
  key: ClaimKey,
  services: ControlServices,
  { made, clientGone }: { made: boolean; clientGone: AbortSignal | undefined },
): Promise<void> {
  if (!made) return await release(false);
  const claim = canonicalClaim(await findClaims(key, services));
  if (claim?.status?.phase === "ReleaseFailed") await unlessGone(discardFiles(key, services));
  const { instanceId } = claim?.status ?? {};
  if (claim?.metadata.deletionTimestamp === undefined && instanceId !== undefined)
    // A pod that is another's by now is not destroyed, and the release goes on without it.
    await unlessStatus([404, 409], destroyOf(instanceId));
  await release(true);
  const keeps = ({ versions, newest }: { versions: readonly Named[]; newest?: Named | undefined }) =>
    [...versions, ...(newest === undefined ? [] : [newest])].some(isNamed);
  for (let tries = 1; ; tries += 1) {
    try {
      return await unlessGone(deleteSnapshot(key, services, { keeps, clientGone }));
    } catch (error) {
      // After a release the operator deletes the session's checkpoint.
      if (!(error instanceof HttpError) || error.status !== 409 || tries === MOST_TRIES) throw error;
      await sleep(tries * PAUSE_MS, { clock: services.clock, signal: clientGone });
    }
  }

  async function release(wait: boolean): Promise<void> {
    await unlessGone(releaseTenant(key, services, { wait, clientGone: () => clientGone }));
  }

  async function destroyOf(name: string): Promise<void> {
    await destroyInstance(await findInstance(name, services), { tenantId: key.tenantId, services });
  }
}

type Named = Parameters<typeof isNamed>[0];

/** Waits for the end of what may be gone already. */
export async function unlessGone(work: Promise<unknown>): Promise<void> {
  await unlessStatus([404], work);
}

async function unlessStatus(passed: readonly number[], work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof HttpError && passed.includes(error.status))) throw error;
  }
}
