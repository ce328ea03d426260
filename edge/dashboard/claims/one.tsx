import { useEffect, useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct } from "../api/access.ts";
import { call } from "../api/call.ts";
import { clockAheadMs, type Kinds, live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { Act, type Acts, Outcome, useActs } from "../parts/acts.tsx";
import { Events } from "../parts/events.tsx";
import { Facts } from "../parts/facts.tsx";
import { instanceHref, savedHref } from "../parts/hrefs.ts";
import { Long } from "../parts/long.tsx";
import { Problem } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { State } from "../parts/state.tsx";
import { TenantLink } from "../parts/tenant-link.tsx";
import { durationWords } from "../parts/time-words.ts";
import { Timeline } from "../parts/timeline.tsx";
import { When } from "../parts/when.tsx";
import { WorkloadLink } from "../parts/workload-link.tsx";
import type { PageParams } from "../route.ts";
import { destroy, discard, release, retryWithoutFiles } from "./acts.tsx";
import { Address, Open } from "./address.tsx";
import { type ClaimKey, claim, isDestroyable, isOpen, retry } from "./claim.ts";
import { Expiry } from "./expiry.tsx";
import { knownOf } from "./known-of.ts";
import { PodLog } from "./pod-log.tsx";
import { remedyOf } from "./remedies.ts";
import { claimMs, claimSegments } from "./segments.ts";
import { ClaimTabs } from "./tabs.tsx";

type ClaimDetail = ApiTypes["ClaimDetail"];

export default function Claim({ params }: { params: PageParams }) {
  const { tenant: tenantId = "", workload: workloadRef = "" } = params;
  const key = { tenantId, workloadRef };
  const claims = live("claims");
  // Only changes of this claim trigger another read of the detail.
  claims.version.value;
  const row = claims.rows.get(`${tenantId}/${workloadRef}`);
  const path = `/tenants/${encodeURIComponent(tenantId)}/claims/${encodeURIComponent(workloadRef)}`;
  const detail = useLoad(row && path, (signal) => call<ClaimDetail>("GET", path, { signal }), row);
  const acts = useActs();
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/claims">Claims</a> / <TenantLink of={tenantId} />
      </p>
      <h1>
        {workloadRef}{" "}
        <small>
          claimed by <TenantLink of={tenantId} />
        </small>
      </h1>
      <ClaimTabs of={key} row={row} current="session" />
      {row === undefined && claims.state.value === "loading" && <p class="muted">Loading…</p>}
      {row === undefined && claims.state.value !== "loading" && <NoClaim claimKey={key} acts={acts} />}
      {row !== undefined && <Shown claimKey={key} row={row} detail={detail.value} acts={acts} />}
      <Problem error={detail.error} />
    </>
  );
}

function Shown(props: { claimKey: ClaimKey; row: Kinds["claims"]; detail: ClaimDetail | undefined; acts: Acts }) {
  const { claimKey: key, row, detail, acts } = props;
  const { phase, reason, zone, source, instanceId, endpoint, claimedAt, expiresAt, labels = {} } = row;
  // Messages on the connection have no status message, and the detail may be older.
  const message = row.message ?? (detail?.reason === reason ? detail?.message : undefined);
  const { createdAt, requestedAt, timeline, waitsFor, snapshot } = detail ?? {};
  const now = useNow(phase === "Pending");
  const start = createdAt === undefined ? [] : claimSegments({ phase, createdAt, requestedAt, source, timeline });
  const took = start.length === 0 ? undefined : claimMs({ timeline });
  const remedy = remedyOf(reason);
  // After its pod is destroyed, the claim keeps its phase and the pod's name, but not the endpoint.
  const isWithoutPod = phase === "Active" && endpoint === undefined;
  // A crashing pod may have no address between two starts.
  const isCrashing = phase === "Active" && reason === "CrashLooping";
  const isHeld = phase !== "Releasing" && phase !== "Released" && phase !== "ReleaseFailed";
  const hasPod = isDestroyable(row) && !isWithoutPod;
  const destroyed = { name: instanceId ?? "", ...key, ...(claimedAt !== undefined && { claimedAt }) };
  return (
    <>
      <div class="acts">
        {mayAct() && (
          <>
            {(phase === "Error" || isWithoutPod) && (
              <Act acts={acts} verb="Retry" class="primary" act={() => retry(key)} />
            )}
            {reason === "RestoreFailed" && isOpen(row) && (
              <>
                <Act acts={acts} verb="Retry without files" act={() => retryWithoutFiles(key)} />
                <a href={savedHref(key)}>Claim another version</a>
              </>
            )}
            {isHeld && <Act acts={acts} verb="Release" keys="r" act={() => release(key, detail)} />}
            {hasPod && <Act acts={acts} verb="Destroy" keys="x" class="danger" act={() => destroy(destroyed)} />}
            {phase === "ReleaseFailed" && (
              <Act acts={acts} verb="Discard" class="danger" act={() => discard(key, detail)} />
            )}
          </>
        )}
        {/* It comes with the detail, and last, so that it moves no button. */}
        {phase === "Active" && detail !== undefined && <Open of={detail} acts={acts} />}
      </div>
      <Outcome acts={acts} />
      {reason !== undefined && (
        <section aria-labelledby="reason">
          <h2 id="reason" class={phase === "Pending" ? "is-warn" : "is-bad"}>
            {reason}
          </h2>
          {message !== undefined && (
            <div class="said">
              <Long of={message} />
            </div>
          )}
          {remedy !== undefined && (
            <p>
              <b>What to do:</b> {remedy}
            </p>
          )}
        </section>
      )}
      {isWithoutPod && <p>Its pod was destroyed or has lost its address. Claim again to get a new one.</p>}
      {reason === undefined && phase === "Pending" && (
        <section aria-labelledby="waits">
          <h2 id="waits">Waiting for</h2>
          <Waits words={message ?? waitsFor} of={detail} />
        </section>
      )}
      <Facts
        of={[
          ["State", <State key="state" of={knownOf(row)} />],
          ["Source", source],
          ["Zone", zone],
          ["Claimed", claimedAt !== undefined && <When at={claimedAt} />],
          ["Expires", expiresAt !== undefined && <When at={expiresAt} />],
          ["Release requested", detail?.releasingSince !== undefined && <When at={detail.releasingSince} />],
          ["Took", took !== undefined && durationWords(took)],
          ["Pod", instanceId !== undefined && <a href={instanceHref(instanceId)}>{instanceId}</a>],
          ["Address", detail?.url !== undefined && <Address key="address" of={detail} />],
          ["Endpoint", endpoint !== undefined && <code>{`${endpoint.host}:${endpoint.port}`}</code>],
          ["Workload", <WorkloadLink key="workload" of={key.workloadRef} />],
          [
            "Labels",
            Object.entries(labels)
              .map(([name, value]) => `${name}=${value}`)
              .join(", "),
          ],
        ]}
      />
      {mayAct() && expiresAt !== undefined && isHeld && <Expiry of={key} uid={detail?.uid} acts={acts} />}
      {start.length > 0 && (
        <section aria-labelledby="times">
          <h2 id="times">Timeline</h2>
          <Timeline segments={start} nowMs={now} label="Timeline of the claim" />
        </section>
      )}
      {detail !== undefined && (
        <>
          <section aria-labelledby="files">
            <h2 id="files">Files</h2>
            <p>{filesWords(detail.resumedFrom, phase)}</p>
            {snapshot !== undefined && (
              <p>
                Saved <When at={snapshot.createdAt} />, {sizeWords(snapshot.sizeBytes)}, version{" "}
                <code>{snapshot.sha256.slice(0, 16)}</code>.
              </p>
            )}
          </section>
          {mayAct() && instanceId !== undefined && (hasPod || isCrashing) && (
            <PodLog key={instanceId} of={instanceId} isOpen={isCrashing} />
          )}
          <Events of={detail} {...(message !== undefined && { above: message })} />
        </>
      )}
    </>
  );
}

/** What a claim waits for: its own message, or the newest warning Event. */
function Waits({ words, of }: { words: string | undefined; of: ClaimDetail | undefined }) {
  const warning = of?.events?.findLast(({ type }) => type === "Warning");
  return (
    <>
      {of !== undefined && <p>{words ?? "No report from the operator yet."}</p>}
      {words === undefined && warning !== undefined && (
        <div class="said">
          <b>{warning.reason}</b> <When at={warning.at} />: <Long of={warning.message} />
        </div>
      )}
    </>
  );
}

/** Shown when the claim does not exist. */
function NoClaim({ claimKey: key, acts }: { claimKey: ClaimKey; acts: Acts }) {
  return (
    <>
      <p>
        {key.tenantId} has no claim on {key.workloadRef}.
      </p>
      {mayAct() && <ClaimForm claimKey={key} acts={acts} />}
    </>
  );
}

function ClaimForm({ claimKey: key, acts }: { claimKey: ClaimKey; acts: Acts }) {
  const [withFiles, setWithFiles] = useState(true);
  return (
    <>
      <label>
        <input type="checkbox" checked={withFiles} onChange={(event) => setWithFiles(event.currentTarget.checked)} />{" "}
        with saved files
      </label>
      <div class="acts">
        <Act acts={acts} verb="Claim" class="primary" act={() => claim(key, withFiles)} />
      </div>
      <Outcome acts={acts} />
    </>
  );
}

function filesWords(resumedFrom: string | undefined, phase: string): string {
  if (resumedFrom === "none") return "Files were requested, but none were saved.";
  if (resumedFrom !== undefined) return `Restored from version ${resumedFrom.slice(0, 16)}.`;
  return phase === "Pending" ? "No files restored yet." : "Started without files.";
}

/** The current time, several times a second while a duration on the page grows. */
function useNow(isRunning: boolean): number {
  const [now, setNow] = useState(Date.now() + clockAheadMs.peek());
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => {
      if (!document.hidden) setNow(Date.now() + clockAheadMs.peek());
    }, 250);
    return () => clearInterval(timer);
  }, [isRunning]);
  return now;
}
