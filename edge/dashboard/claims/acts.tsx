import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call, ifGone } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { confirm } from "../parts/confirm.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { When } from "../parts/when.tsx";
import { type ClaimKey, claim, readClaim } from "./claim.ts";
import { destroyWords } from "./destroy-words.ts";
import { releaseOutcome } from "./release-outcome.ts";

type ClaimDetail = ApiTypes["ClaimDetail"];

const tenantPath = ({ tenantId }: ClaimKey): string => `/tenants/${encodeURIComponent(tenantId)}`;

/**
 * Asks first: the pod goes.
 *
 * @param shown what the page shows of the claim; it is read where that is not there yet
 */
export async function release(key: ClaimKey, shown: ClaimDetail | undefined): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const { uid } = shown ?? (await readClaim(key));
  const isMeant = await confirm({
    title: `Release ${workloadRef} of ${tenantId}?`,
    lost: <WhatReleaseDoes {...key} />,
    verb: "Release",
  });
  if (!isMeant) return undefined;
  await call("POST", `${tenantPath(key)}/release`, { body: { workload: workloadRef, uid } });
  return `The claim of ${tenantId} on ${workloadRef} is being released.`;
}

/** Asks first: the tenant begins without what was saved. */
export async function retryWithoutFiles(key: ClaimKey): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const isMeant = await confirm({
    title: `Claim ${workloadRef} for ${tenantId} without the files?`,
    lost: (
      <p>
        <b>{tenantId}</b> begins with empty folders. What was saved stays; what comes now is saved as a newer version,
        and of the older ones the newest three stay.
      </p>
    ),
    verb: "Claim without the files",
  });
  return isMeant ? claim(key, false) : undefined;
}

/** Asks first: what the pod holds is lost. */
export async function destroy(instance: Pick<ApiTypes["Instance"], "name" | "tenantId" | "workloadRef" | "claimedAt">) {
  const { name, tenantId, workloadRef, claimedAt } = instance;
  const of = tenantId === undefined || workloadRef === undefined ? undefined : { tenantId, workloadRef };
  const claimed = of && (await readClaim(of).catch(ifGone));
  const isMeant = await confirm({
    title: `Destroy instance ${name}?`,
    lost:
      tenantId === undefined ? (
        <p>The pod is deleted at once. Nobody has claimed it; its pool makes another.</p>
      ) : (
        <p>
          The pod is deleted at once. What <b>{tenantId}</b> has written {since(claimedAt)} is <b>not saved</b>.{" "}
          {destroyWords(instance, claimed)}
        </p>
      ),
    verb: "Destroy",
    ...(tenantId !== undefined && { type: tenantId }),
  });
  if (!isMeant) return undefined;
  // A warm pod may have been given to somebody while this was asked.
  const query = new URLSearchParams({ tenant: tenantId ?? "" });
  await call("POST", `/instances/${encodeURIComponent(name)}/destroy?${query}`);
  return `Instance ${name} is destroyed.`;
}

/** Asks first: gives up files that cannot be saved; `shown` as {@link release} has it. */
export async function discard(key: ClaimKey, shown: ClaimDetail | undefined): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const { uid, claimedAt, message } = shown ?? (await readClaim(key));
  const isMeant = await confirm({
    title: `Discard what ${tenantId} has in ${workloadRef}?`,
    lost: (
      <>
        <p>
          The files that could not be saved {since(claimedAt)} are <b>given up</b>; what was saved before stays. The pod
          goes.
        </p>
        {message !== undefined && <p class="muted">{message}</p>}
      </>
    ),
    verb: "Discard",
    type: tenantId,
  });
  if (!isMeant) return undefined;
  await call("POST", `${tenantPath(key)}/discard`, { body: { workload: workloadRef, uid } });
  return `The files of ${tenantId} in ${workloadRef} are discarded.`;
}

/** Read when the question is asked, of the pod itself: its workload may have been changed since it was made. */
function WhatReleaseDoes({ tenantId, workloadRef }: ClaimKey) {
  const read = useLoad(`release ${tenantId} ${workloadRef}`, async (signal) => {
    const path = `/tenants/${encodeURIComponent(tenantId)}/claims/${encodeURIComponent(workloadRef)}`;
    const claim = await call<ApiTypes["ClaimDetail"]>("GET", path, { signal });
    const { instanceId } = claim;
    const pod =
      instanceId &&
      (await call<ApiTypes["InstanceDetail"]>("GET", `/instances/${encodeURIComponent(instanceId)}?detail=true`, {
        signal,
      }).catch(ifGone));
    return { claim, savedDirs: pod ? (pod.savedDirs ?? []) : undefined };
  });
  const saved = useLoad(`snapshots ${tenantId}`, (signal) =>
    call<ApiTypes["Snapshot"][]>("GET", `/snapshots?limit=1000&tenant=${encodeURIComponent(tenantId)}`, { signal }),
  );
  if (read.error !== undefined) return <p>What is saved is not known: {read.error.message}</p>;
  if (read.value === undefined) return <p>Reading what is saved …</p>;
  const { claim, savedDirs } = read.value;
  const present = saved.value?.find((one) => one.workloadRef === workloadRef);
  const outcome = releaseOutcome({ claim, savedDirs, present });
  return (
    <>
      <p>
        {!outcome.saves && <b>Nothing is saved</b>}
        {!outcome.saves && ": "}
        {outcome.words}
      </p>
      {saved.error !== undefined && <p class="muted">What was saved before is not known: {saved.error.message}</p>}
      {present !== undefined && (
        <p class="muted">
          The present version is of <When at={present.createdAt} />, {sizeWords(present.sizeBytes)}. {outcome.present}
        </p>
      )}
      {saved.value !== undefined && present === undefined && <p class="muted">Nothing was saved before.</p>}
    </>
  );
}

function since(at: string | undefined) {
  if (at === undefined) return null;
  return (
    <>
      since <When at={at} />
    </>
  );
}
