import { useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import type { ClaimKey } from "../claims/claim.ts";
import { Act, type Acts } from "../parts/acts.tsx";

/** A form to save the files of a running instance. */
export function Checkpoint(props: {
  of: ClaimKey;
  acts: Acts;
  changed(act: Promise<string | undefined>): Promise<string | undefined>;
}) {
  const { of, acts, changed } = props;
  const [name, setName] = useState("");
  async function act(): Promise<string | undefined> {
    const said = await changed(checkpoint(of, name.trim()));
    setName("");
    return said;
  }
  return (
    <section aria-labelledby="checkpoint">
      <h2 id="checkpoint">Checkpoint</h2>
      <form
        class="spec"
        onSubmit={(event) => {
          event.preventDefault();
          acts.run(VERB, act);
        }}
      >
        <div class="field">
          <label for="name">Name</label>
          <input
            id="name"
            maxLength={63}
            autocomplete="off"
            spellcheck={false}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <p class="muted">
            Saves the files of the running instance now. With a name the version stays; without one, the next checkpoint
            replaces it.
          </p>
        </div>
        <div class="acts">
          <Act acts={acts} verb={VERB} act={act} />
        </div>
      </form>
    </section>
  );
}

const VERB = "Save a checkpoint";

async function checkpoint({ tenantId, workloadRef }: ClaimKey, name: string): Promise<string> {
  const body = { workload: workloadRef, ...(name !== "" && { name }) };
  const path = `/tenants/${encodeURIComponent(tenantId)}/checkpoint`;
  const { version } = await call<ApiTypes["SnapshotVersion"]>("POST", path, { body });
  return `The files are saved as ${name === "" ? version : `${name}, version ${version}`}.`;
}
