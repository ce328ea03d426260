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
 * Asks for confirmation first: the pod is deleted.
 *
 * @param shown the claim as the page shows it; read from the API if undefined
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

/** Asks for confirmation first: the tenant starts without the saved files. */
export async function retryWithoutFiles(key: ClaimKey): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const isMeant = await confirm({
    title: `Claim ${workloadRef} for ${tenantId} without saved files?`,
    lost: (
      <p>
        <b>{tenantId}</b> starts with empty folders. The saved files are kept: the next save is a newer version, and the
        three newest older versions stay.
      </p>
    ),
    verb: "Claim without files",
  });
  return isMeant ? claim(key, false) : undefined;
}

/** Asks for confirmation first: unsaved files in the pod are lost. */
export async function destroy(instance: Pick<ApiTypes["Instance"], "name" | "tenantId" | "workloadRef" | "claimedAt">) {
  const { name, tenantId, workloadRef, claimedAt } = instance;
  const of = tenantId === undefined || workloadRef === undefined ? undefined : { tenantId, workloadRef };
  const claimed = of && (await readClaim(of).catch(ifGone));
  const isMeant = await confirm({
    title: `Destroy instance ${name}?`,
    lost:
      tenantId === undefined ? (
        <p>The pod is deleted now. No tenant has claimed it; its pool starts another one.</p>
      ) : (
        <p>
          The pod is deleted now. The files that <b>{tenantId}</b> has written {since(claimedAt)} are <b>not saved</b>.{" "}
          {destroyWords(instance, claimed)}
        </p>
      ),
    verb: "Destroy",
    ...(tenantId !== undefined && { type: tenantId }),
  });
  if (!isMeant) return undefined;
  // A warm pod may have been claimed while the question was open.
  const query = new URLSearchParams({ tenant: tenantId ?? "" });
  await call("POST", `/instances/${encodeURIComponent(name)}/destroy?${query}`);
  return `Instance ${name} is being destroyed.`;
}

/** Asks for confirmation first: discards files that cannot be saved; `shown` as in {@link release}. */
export async function discard(key: ClaimKey, shown: ClaimDetail | undefined): Promise<string | undefined> {
  const { tenantId, workloadRef } = key;
  const { uid, claimedAt, message } = shown ?? (await readClaim(key));
  const isMeant = await confirm({
    title: `Discard the unsaved files of ${tenantId} in ${workloadRef}?`,
    lost: (
      <>
        <p>
          The files that could not be saved {since(claimedAt)} are <b>discarded</b>; earlier saved versions stay. The
          pod is deleted.
        </p>
        {message !== undefined && <p class="muted">{message}</p>}
      </>
    ),
    verb: "Discard",
    type: tenantId,
  });
  if (!isMeant) return undefined;
  await call("POST", `${tenantPath(key)}/discard`, { body: { workload: workloadRef, uid } });
  return `The unsaved files of ${tenantId} in ${workloadRef} are discarded.`;
}

/** Reads the pod itself when the question opens: its workload may have changed since the pod was made. */
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
  if (read.error !== undefined) return <p>Cannot read what will be saved: {read.error.message}</p>;
  if (read.value === undefined) return <p>Reading what will be saved …</p>;
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
      {saved.error !== undefined && <p class="muted">Cannot read the saved versions: {saved.error.message}</p>}
      {present !== undefined && (
        <p class="muted">
          The newest saved version is from <When at={present.createdAt} />, {sizeWords(present.sizeBytes)}.{" "}
          {outcome.present}
        </p>
      )}
      {saved.value !== undefined && present === undefined && <p class="muted">Nothing has been saved before.</p>}
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
