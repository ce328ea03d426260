import { useState } from "preact/hooks";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { sizeWords } from "../parts/size-words.ts";
import { copyTo, digitsOf, type KnownVersion } from "./acts.tsx";

export function Copy({ of }: { of: readonly KnownVersion[] }) {
  const [tenantId, setTenantId] = useState("");
  const [picked, setPicked] = useState<string>();
  const acts = useActs();
  const version = of.find(({ sha256 }) => sha256 === picked) ?? of[0];
  const isComplete = tenantId !== "" && version !== undefined;
  const run = async () => (isComplete ? copyTo(tenantId, version) : undefined);
  return (
    <section aria-labelledby="copy">
      <h2 id="copy">Copy to another tenant</h2>
      <form
        class="spec"
        onSubmit={(event) => {
          event.preventDefault();
          if (isComplete) acts.run(VERB, run);
        }}
      >
        <div class="field">
          <label for="version">Version</label>
          <select id="version" value={version?.sha256} onChange={(event) => setPicked(event.currentTarget.value)}>
            {of.map((one) => (
              <option key={one.path} value={one.sha256}>
                {digitsOf(one)}, {sizeWords(one.sizeBytes)}
                {one.version === undefined ? ", newest" : one.kind === "checkpoint" && ", checkpoint"}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for="tenant">To tenant</label>
          <input
            id="tenant"
            maxLength={63}
            autocomplete="off"
            spellcheck={false}
            value={tenantId}
            onInput={(event) => setTenantId(event.currentTarget.value)}
          />
          <p class="muted">
            The copy then belongs to the other tenant, who must have no claim on the workload during the copy.
          </p>
        </div>
        <div class="acts">
          <Act acts={acts} verb={VERB} class="danger" disabled={!isComplete} act={run} />
        </div>
      </form>
      <Outcome acts={acts} />
    </section>
  );
}

const VERB = "Copy to tenant";
