import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { CallError, call } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { confirm } from "../parts/confirm.tsx";
import { Problem } from "../parts/problem.tsx";
import { leaveGuard } from "../route.ts";
import { capital } from "./capital.ts";
import { Labelled } from "./labelled.tsx";
import { SameAs } from "./same-as.tsx";
import {
  choiceOf,
  type FieldSchema,
  fieldChoices,
  otherNames,
  problemsByField,
  specChanges,
  specFields,
  withValue,
} from "./spec-fields.ts";
import { SpecGroups } from "./spec-groups.tsx";

type Spec = Readonly<Record<string, unknown>>;
interface Document {
  readonly components: { readonly schemas: Readonly<Record<string, FieldSchema>> };
}

const CHECK_AFTER_MS = 300;

/**
 * A form generated from the OpenAPI document, or its JSON. A dry run checks it, and the API's messages appear at the
 * fields.
 */
export function SpecForm(props: {
  /** Such as `workload`; the OpenAPI document then has a `WorkloadSpec`. */
  noun: string;
  spec: Spec;
  /** Initial content. @default the spec */
  start?: Spec;
  /** Called with the form's content after each change. */
  onTyped?(spec: Spec): void;
  /** Undefined if the object already has a name; otherwise the form asks for it. */
  name: string | undefined;
  /** What the field of the name begins with. */
  firstName?: string | undefined;
  verb: string;
  /** Writes the object, or only validates it. */
  write(given: { name: string; spec: Spec; dryRun: boolean; signal?: AbortSignal }): Promise<void>;
  onCancel(): void;
}) {
  const { noun, verb, write, onCancel } = props;
  const schema = `${capital(noun)}Spec`;
  const document_ = useLoad("openapi", (signal) => call<Document>("GET", "/openapi.json", { signal }));
  const parts = document_.value?.components.schemas[schema];
  const fields = useMemo(() => (parts === undefined ? [] : specFields(parts)), [parts]);
  const [name, setName] = useState(props.name ?? props.firstName ?? "");
  const [first] = useState(props.spec);
  const [spec, setSpec] = useState(props.start ?? first);
  const choices = fieldChoices[schema] ?? [];
  const [chosen, setChosen] = useState(() => choiceOf(choices, spec));
  const hidden = otherNames(choices, chosen);
  const [json, setJson] = useState<string>();
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  // This render may be older than a second key press.
  const isWriting = useRef(false);
  const form = useRef<HTMLFormElement>(null);
  const isTouched = name !== (props.name ?? props.firstName ?? "") || spec !== first;
  const jsonProblem = json === undefined ? undefined : parsed(json).problem;
  const isCancelled = useRef(false);
  const ask = useRef((): Promise<boolean> | undefined => undefined);
  ask.current = () => {
    if (isWriting.current || isCancelled.current || (!isTouched && jsonProblem === undefined)) return undefined;
    return confirm({
      title: "Leave without saving?",
      lost: <NotSaved changes={specChanges(first, spec)} />,
      verb: "Leave",
    });
  };
  useEffect(() => leaveGuard.set(() => ask.current()), []);
  useEffect(() => props.onTyped?.(spec), [spec]);

  const endCheck = useRef((): void => undefined);
  useEffect(() => {
    if (!isTouched || jsonProblem !== undefined) return;
    const aborted = new AbortController();
    const timer = setTimeout(() => {
      write({ name, spec, dryRun: true, signal: aborted.signal }).then(
        () => setError(undefined),
        (cause: Error) => !aborted.signal.aborted && setError(cause),
      );
    }, CHECK_AFTER_MS);
    endCheck.current = () => {
      clearTimeout(timer);
      aborted.abort();
    };
    return endCheck.current;
  }, [name, spec, isTouched, jsonProblem]);

  const isRefused = error instanceof CallError && error.status === 400;
  const problems = isRefused ? problemsByField(error.message, fields) : new Map<string, string>();
  const above = isRefused ? problems.get("") : error;

  return (
    <form class="spec" ref={form} noValidate onSubmit={(event) => void submit(event)}>
      {props.name === undefined && (
        <Labelled label="Name" help="Lower-case letters, digits, - and ." problem={problems.get("name")}>
          {(described) => (
            <input
              {...described}
              required
              maxLength={63}
              spellcheck={false}
              autocomplete="off"
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          )}
        </Labelled>
      )}
      {above !== undefined && <Problem error={typeof above === "string" ? new Error(above) : above} />}
      <Problem error={document_.error} />
      {json !== undefined ? (
        <Labelled
          label="spec"
          help=""
          problem={
            jsonProblem ??
            [...problems]
              .filter(([path]) => path !== "" && path !== "name")
              .map(([, words]) => words)
              .join("; ")
          }
        >
          {(described) => (
            <textarea
              {...described}
              class="mono"
              rows={24}
              spellcheck={false}
              value={json}
              onInput={(event) => {
                const text = event.currentTarget.value;
                setJson(text);
                const { value } = parsed(text);
                if (value !== undefined) setSpec(value);
              }}
            />
          )}
        </Labelled>
      ) : (
        <>
          {choices.length > 0 && (
            <Labelled label="kind" help="Which of the fields below take effect." problem={undefined}>
              {(described) => (
                <select
                  {...described}
                  value={String(chosen)}
                  onChange={(event) => choose(Number(event.currentTarget.value))}
                >
                  {choices.map(({ label }, index) => (
                    <option key={label} value={String(index)}>
                      {label}
                    </option>
                  ))}
                </select>
              )}
            </Labelled>
          )}
          <SpecGroups
            {...{ schema, parts, spec, problems }}
            fields={fields.filter(({ path }) => !hidden.has(path.split(".")[0] ?? ""))}
            change={(path, value) => setSpec((was) => withValue(was, path, value))}
          />
        </>
      )}
      {/* It would be pushed down by the fields. */}
      {parts !== undefined && <SameAs noun={noun} name={name} spec={spec} isNew={props.name === undefined} />}
      <div class="acts submit">
        <button type="submit" class="primary" aria-disabled={isBusy}>
          {isBusy ? `${verb} …` : verb}
        </button>
        <button
          type="button"
          onClick={() => {
            isCancelled.current = true;
            onCancel();
          }}
        >
          Cancel
        </button>
        <button type="button" class="other" aria-pressed={json !== undefined} onClick={turn}>
          Edit as JSON
        </button>
      </div>
    </form>
  );

  /** A field of another alternative would be refused. */
  function choose(index: number): void {
    const others = otherNames(choices, index);
    setChosen(index);
    setSpec((was) => Object.fromEntries(Object.entries(was).filter(([name]) => !others.has(name))));
  }

  function turn(): void {
    // The text may have chosen another alternative.
    if (json !== undefined && choices.length > 0) setChosen(choiceOf(choices, spec));
    if (json === undefined) setJson(JSON.stringify(spec, null, 2));
    else if (jsonProblem === undefined) setJson(undefined);
  }

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (isWriting.current || jsonProblem !== undefined) return;
    isWriting.current = true;
    setBusy(true);
    // A check after the write would report that the object already exists.
    endCheck.current();
    try {
      await write({ name, spec, dryRun: false });
      setError(undefined);
    } catch (cause) {
      setError(cause as Error);
    } finally {
      isWriting.current = false;
      setBusy(false);
      // After the response is rendered.
      requestAnimationFrame(() => {
        const bad = form.current?.querySelector<HTMLElement>("[aria-invalid=true]");
        if (bad != null) bad.focus();
        else form.current?.querySelector("[role=alert]")?.scrollIntoView({ block: "center" });
      });
    }
  }
}

function NotSaved({ changes }: { changes: readonly string[] }) {
  return (
    <>
      <p>
        Your changes are <b>not saved</b>:
      </p>
      <ul>
        {changes.map((line) => (
          <li key={line}>
            <code>{line}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

function parsed(text: string): { value?: Spec; problem?: string } {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return { problem: "must be a JSON object" };
    return { value: value as Spec };
  } catch (error) {
    return { problem: `is not JSON: ${(error as Error).message}` };
  }
}
