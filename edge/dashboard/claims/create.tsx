import { useEffect, useRef, useState } from "preact/hooks";
import { listedTenants, seesService } from "../api/access.ts";
import { live } from "../api/kinds.ts";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { claimHref } from "../parts/hrefs.ts";
import { navigate, place } from "../route.ts";
import { type SpecField, withValue } from "../spec/spec-fields.ts";
import { Field, Folded } from "../spec/spec-groups.tsx";
import { claim } from "./claim.ts";
import { Minutes, secondsOf } from "./expiry.tsx";

const optional = { isRequired: false, schema: {} };
const ZONE: SpecField = {
  ...optional,
  path: "zone",
  kind: "text",
  help: "Zone that it should run in, if a pod is there.",
};
const LABELS: SpecField = { ...optional, path: "labels", kind: "pairs", help: "Of the pod. Not for secrets." };
/** For a program that can get them. */
const INPUTS: readonly SpecField[] = [
  { ...optional, path: "env", kind: "pairs", help: "Variables of the program. Not for secrets: claims show them." },
  {
    ...optional,
    path: "secrets",
    kind: "pairs",
    help: "Variables of one line that are stored in a Secret, which is deleted with the claim.",
  },
  {
    ...optional,
    path: "files",
    kind: "json",
    help: 'Files that the program finds: [{"path": "/data/a", "content": "…"}].',
  },
];

/** Claims a workload for a tenant; `?workload=` and `?tenant=` fill in the form. */
export default function CreateClaim() {
  const { searchParams } = place.value;
  const [tenantId, setTenantId] = useState(searchParams.get("tenant") ?? listedTenants()?.[0] ?? "");
  const [workloadRef, setWorkloadRef] = useState(searchParams.get("workload") ?? "");
  const [withFiles, setWithFiles] = useState(true);
  const [minutes, setMinutes] = useState("");
  const [brought, setBrought] = useState<Readonly<Record<string, unknown>>>({});
  const acts = useActs();
  const isLeft = useRef(false);
  useEffect(
    () => () => {
      isLeft.current = true;
    },
    [],
  );
  const workloads = seesService() ? live("workloads") : undefined;
  workloads?.version.value;
  const { start, onClaim } = workloads?.rows.get(workloadRef)?.spec.entrypoint ?? {};
  const takesInputs = workloads === undefined || start === "OnClaim" || onClaim !== undefined;
  // What was filled in for another workload is sent, so it is shown: the API says why it cannot be given.
  const hasInputs = INPUTS.some(({ path }) => brought[path] !== undefined);
  const fields = takesInputs || hasInputs ? [ZONE, LABELS, ...INPUTS] : [ZONE, LABELS];
  // No part of a secret may become the name of a variable, which everybody sees.
  const isCut = Object.values(brought.secrets ?? {}).includes("");
  const expiresInSeconds = secondsOf(minutes);
  const isComplete =
    tenantId !== "" && workloadRef !== "" && (minutes === "" || expiresInSeconds !== undefined) && !isCut;
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
          {workloads === undefined ? (
            <input
              id="workload"
              required
              maxLength={63}
              autocomplete="off"
              spellcheck={false}
              value={workloadRef}
              onInput={(event) => setWorkloadRef(event.currentTarget.value)}
            />
          ) : (
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
          )}
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
        <Folded
          name="For a new claim"
          holds={fields.map(({ path }) => path).join(", ")}
          isFilled={false}
          hasProblem={isCut}
        >
          {fields.map((field) => (
            <Field
              key={field.path}
              field={field}
              label={field.path}
              value={brought[field.path]}
              problem={field.path === "secrets" && isCut ? "each line must be NAME=value" : undefined}
              change={(value) => setBrought((before) => withValue(before, field.path, value))}
            />
          ))}
        </Folded>
        <div class="acts">
          <Act acts={acts} verb="Claim" class="primary" disabled={!isComplete} act={run} />
        </div>
      </form>
      <Outcome acts={acts} />
    </>
  );

  async function run(): Promise<string> {
    const said = await claim({ tenantId, workloadRef }, withFiles, { expiresInSeconds, ...brought });
    // The claim may have taken 30 s.
    if (!isLeft.current) navigate(claimHref({ tenantId, workloadRef }));
    return said;
  }
}
