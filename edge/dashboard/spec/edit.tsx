import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { confirm } from "../parts/confirm.tsx";
import { Problem } from "../parts/problem.tsx";
import { navigate, place } from "../route.ts";
import { readTagged } from "./read-tagged.ts";
import { rebased, specChanges } from "./spec-fields.ts";
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
 * Edits the current spec: read again before editing, and written only if unchanged since.
 *
 * @param props.also further effects of a change
 */
export function EditSpec(props: { noun: string; path: string; also?: ComponentChildren }) {
  const { noun, path, also } = props;
  const read = useLoad(path, (signal) => readTagged<Named>(path, { signal }));
  // The form's content and the spec that it changes; rebased when the spec is read again.
  const typed = useRef<Typed | undefined>(undefined);
  if (read.value === undefined) return <Problem error={read.error} />;
  const { object, ...precondition } = read.value;
  return (
    <>
      <div class="acts">
        <button type="button" onClick={read.again}>
          Reload
        </button>
      </div>
      <Problem error={read.error} />
      <EditObject
        key={precondition.ifMatch ?? ""}
        {...{ noun, path, also, object, precondition, before: typed.current }}
        onTyped={(spec) => {
          typed.current = { over: object.spec, spec };
        }}
      />
    </>
  );
}

interface Typed {
  readonly over: Named["spec"];
  readonly spec: Named["spec"];
}

function EditObject(props: {
  noun: string;
  path: string;
  also: ComponentChildren;
  object: Named;
  precondition: { ifMatch?: string };
  before: Typed | undefined;
  onTyped(spec: Named["spec"]): void;
}) {
  const { noun, path, also, object, precondition, before, onTyped } = props;
  const { name } = object;
  const [{ value, clashes }] = useState(() =>
    before === undefined
      ? { value: object.spec, clashes: [] }
      : rebased({ before: before.over, mine: before.spec, theirs: object.spec }),
  );
  const leave = (): void => navigate(place.value.pathname, { replace: true });
  return (
    <>
      {clashes.length > 0 && (
        <div role="status">
          <p class="is-warn">Someone else changed these fields too, and the form shows their values. You wrote:</p>
          <ul>
            {clashes.map((line) => (
              <li key={line}>
                <code>{line}</code>
              </li>
            ))}
          </ul>
        </div>
      )}
      <SpecForm
        noun={noun}
        spec={object.spec}
        start={value as Named["spec"]}
        onTyped={onTyped}
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
      {of.length === 0 && <p>No changes.</p>}
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
