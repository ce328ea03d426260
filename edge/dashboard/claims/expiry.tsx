import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { Act, type Acts } from "../parts/acts.tsx";
import { type ClaimKey, readClaim } from "./claim.ts";

const MOST_MINUTES = 525_600;

/** Whole seconds of a number of minutes that a person typed; undefined if it is not one. */
export function secondsOf(minutes: string): number | undefined {
  const seconds = Math.round(Number(minutes) * 60);
  return minutes.trim() !== "" && seconds >= 1 && seconds <= MOST_MINUTES * 60 ? seconds : undefined;
}

/** A number of minutes, as text. */
export function Minutes(props: {
  id: string;
  label: string;
  value: string;
  hint?: string;
  onInput(value: string): void;
}) {
  const { id, label, value, hint, onInput } = props;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="number"
        min={1}
        max={MOST_MINUTES}
        step="any"
        value={value}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {hint !== undefined && <p id={`${id}-hint`}>{hint}</p>}
    </div>
  );
}

/** A form to extend the claim; `uid` of the claim as the page shows it. */
export function Expiry(props: { of: ClaimKey; uid: string | undefined; acts: Acts }) {
  const { of: key, uid, acts } = props;
  const [minutes, setMinutes] = useState("60");
  const seconds = secondsOf(minutes);
  const act = () => extend(key, uid, seconds ?? 0);
  return (
    <section aria-labelledby="expiry">
      <h2 id="expiry">Expiry</h2>
      <p>The claim is released when it expires, even while it is in use.</p>
      <form
        class="spec"
        onSubmit={(event) => {
          event.preventDefault();
          if (seconds !== undefined) acts.run("Extend", act);
        }}
      >
        <Minutes id="extend" label="Minutes from now" value={minutes} onInput={setMinutes} />
        <div class="acts">
          <Act acts={acts} verb="Extend" disabled={seconds === undefined} act={act} />
        </div>
      </form>
    </section>
  );
}

async function extend(key: ClaimKey, shown: string | undefined, seconds: number): Promise<string> {
  const { tenantId, workloadRef } = key;
  const uid = shown ?? (await readClaim(key)).uid;
  const path = `/tenants/${encodeURIComponent(tenantId)}/extend`;
  const { expiresAt } = await call<{ expiresAt: string }>("POST", path, {
    body: { workload: workloadRef, seconds, uid },
  });
  return `The claim of ${tenantId} on ${workloadRef} expires at ${new Date(expiresAt).toLocaleString()}.`;
}
