import { useEffect, useRef, useState } from "preact/hooks";
import { live } from "../api/kinds.ts";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { navigate, place } from "../route.ts";
import { claim } from "./claim.ts";
import { Minutes, secondsOf } from "./expiry.tsx";

/** Claims a workload for a tenant; `?workload=` and `?tenant=` fill in the form. */
export default function CreateClaim() {
  const { searchParams } = place.value;
  const [tenantId, setTenantId] = useState(searchParams.get("tenant") ?? "");
  const [workloadRef, setWorkloadRef] = useState(searchParams.get("workload") ?? "");
  const [withFiles, setWithFiles] = useState(true);
  const [minutes, setMinutes] = useState("");
  const acts = useActs();
  const isLeft = useRef(false);
  useEffect(
    () => () => {
      isLeft.current = true;
    },
    [],
  );
  const workloads = live("workloads");
  workloads.version.value;
  const expiresInSeconds = secondsOf(minutes);
  const isComplete = tenantId !== "" && workloadRef !== "" && (minutes === "" || expiresInSeconds !== undefined);
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/claims">Claims</a>
      </p>
      <h1>Claim a workload</h1>
      <form
        class="spec"
        onSubmit={(event) => {
          event.preventDefault();
          if (isComplete) acts.run("Claim", run);
        }}
      >
        <div class="field">
          <label for="tenant">Tenant</label>
          <input
            id="tenant"
            required
            maxLength={63}
            autocomplete="off"
            spellcheck={false}
            value={tenantId}
            onInput={(event) => setTenantId(event.currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for="workload">Workload</label>
          <select
            id="workload"
            required
            value={workloadRef}
            onChange={(event) => setWorkloadRef(event.currentTarget.value)}
          >
            <option value="">–</option>
            {[...new Set([...workloads.rows.keys(), ...(workloadRef === "" ? [] : [workloadRef])])]
              .sort()
              .map((name) => (
                <option key={name}>{name}</option>
              ))}
          </select>
        </div>
        <label>
          <input type="checkbox" checked={withFiles} onChange={(event) => setWithFiles(event.currentTarget.checked)} />{" "}
          with saved files
        </label>
        <Minutes
          id="expires"
          label="Expires after (minutes)"
          value={minutes}
          hint="Released then, even while it is in use. Empty: it does not expire."
          onInput={setMinutes}
        />
        <div class="acts">
          <Act acts={acts} verb="Claim" class="primary" disabled={!isComplete} act={run} />
        </div>
      </form>
      <Outcome acts={acts} />
    </>
  );

  async function run(): Promise<string> {
    const said = await claim({ tenantId, workloadRef }, withFiles, { expiresInSeconds });
    // The claim may have taken 30 s.
    if (!isLeft.current)
      navigate(`/dashboard/claims/${encodeURIComponent(tenantId)}/${encodeURIComponent(workloadRef)}`);
    return said;
  }
}
