import type { ComponentChildren } from "preact";
import { call } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { confirm } from "../parts/confirm.tsx";
import { Problem } from "../parts/problem.tsx";
import { navigate, place } from "../route.ts";
import { readTagged } from "./read-tagged.ts";
import { specChanges } from "./spec-fields.ts";
import { SpecForm } from "./spec-form.tsx";

interface Named {
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** Whether the page's address asks for the form. */
export function isEdited(): boolean {
  return place.value.searchParams.get("edit") === "1";
}

/**
 * Edits a spec as it is now: read anew, and written only where nobody has changed it meanwhile.
 *
 * @param props.also what a change does beyond itself
 */
export function EditSpec(props: { noun: string; path: string; schema: string; also?: ComponentChildren }) {
  const { noun, path, schema, also } = props;
  const read = useLoad(path, (signal) => readTagged<Named>(path, { signal }));
  const leave = (): void => navigate(place.value.pathname, { replace: true });
  if (read.value === undefined) return <Problem error={read.error} />;
  const { object, ...precondition } = read.value;
  const { name } = object;
  return (
    <>
      <div class="acts">
        <button type="button" onClick={read.again}>
          Read again
        </button>
      </div>
      <Problem error={read.error} />
      <SpecForm
        key={precondition.ifMatch ?? ""}
        schema={schema}
        spec={object.spec}
        name={name}
        verb="Save"
        onCancel={leave}
        write={async ({ spec, dryRun, signal }) => {
          const lost = <Changes of={specChanges(object.spec, spec)} also={also} />;
          if (!dryRun && !(await confirm({ title: `Change ${noun} ${name}?`, lost, verb: "Save" }))) return;
          await call("PUT", `${path}${dryRun ? "?dryRun=true" : ""}`, {
            body: { spec },
            ...precondition,
            ...(signal !== undefined && { signal }),
          });
          if (!dryRun) leave();
        }}
      />
    </>
  );
}

function Changes({ of, also }: { of: readonly string[]; also: ComponentChildren }) {
  return (
    <>
      {of.length === 0 && <p>Nothing changes.</p>}
      <ul>
        {of.map((line) => (
          <li key={line}>
            <code>{line}</code>
          </li>
        ))}
      </ul>
      {also}
    </>
  );
}
