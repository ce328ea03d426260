import type { ComponentChildren } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { Labelled } from "./labelled.tsx";
import {
  editableField,
  type FieldSchema,
  fieldText,
  fieldValue,
  groupWords,
  type SpecField,
  usualFields,
  valueAt,
} from "./spec-fields.ts";

type Spec = Readonly<Record<string, unknown>>;

/** Required and usual fields first; the others in collapsed groups, unless a field of the group is set. */
export function SpecGroups(props: {
  fields: readonly SpecField[];
  /** Such as `WorkloadSpec`. */
  schema: string;
  parts: FieldSchema | undefined;
  spec: Spec;
  problems: ReadonlyMap<string, string>;
  change(path: string, value: unknown): void;
}) {
  const { fields, schema, parts, spec, problems, change } = props;
  const usual = usualFields[schema] ?? {};
  const isFirst = ({ path, isRequired }: SpecField): boolean => isRequired || usual[path] !== undefined;
  const rest = fields.filter((field) => !isFirst(field));
  // What belongs to no group comes last.
  const groups = [...new Set(rest.map(groupOf))].sort((a, b) => Number(a === "") - Number(b === ""));
  const shown = (field: SpecField, label: string) => (
    <Field
      {...{ key: field.path, field, label, problem: problems.get(field.path) }}
      path={field.path.endsWith(label) ? undefined : field.path}
      value={valueAt(spec, field.path)}
      change={(value) => change(field.path, value)}
    />
  );
  return (
    <>
      {fields.filter(isFirst).map((field) => shown(field, usual[field.path] || field.path))}
      {groups.map((name) => {
        const own = rest.filter((field) => groupOf(field) === name);
        const names = [...new Set(own.map(({ path }) => labelOf(path).split(".")[0]))].join(", ");
        const [title, about] = groupWords[schema]?.[name] ?? [name || "In general", names];
        return (
          <Folded
            key={name}
            name={title}
            holds={about}
            isFilled={own.some(({ path }) => valueAt(spec, path) !== undefined)}
            hasProblem={own.some(({ path }) => problems.has(path))}
          >
            {name !== "" && <p class="muted">{parts?.properties?.[name]?.description}</p>}
            {own.map((field) => shown(field, labelOf(field.path)))}
          </Folded>
        );
      })}
    </>
  );
}

/** A group that is open at first if a field is set, and opens when a field has a problem. */
export function Folded(props: {
  name: string;
  holds: string;
  isFilled: boolean;
  hasProblem: boolean;
  children: ComponentChildren;
}) {
  const { name, holds, isFilled, hasProblem, children } = props;
  const [isOpen, setOpen] = useState(isFilled);
  useLayoutEffect(() => {
    if (hasProblem) setOpen(true);
  }, [hasProblem]);
  return (
    <details class="group" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <b>{name}</b> <span class="muted">{holds}</span>
      </summary>
      {children}
    </details>
  );
}

/** `""` for a field that is in no group. */
function groupOf({ path }: SpecField): string {
  return path.includes(".") ? (path.split(".")[0] ?? "") : "";
}

/** Label of a field within its group. */
function labelOf(path: string): string {
  return path.split(".").slice(1).join(".") || path;
}

/** The control of a field, with its label. */
export function Field(props: {
  field: SpecField;
  label: string;
  /** Where it is in the spec, if the label does not say it. */
  path?: string | undefined;
  value: unknown;
  problem: string | undefined;
  change(value: unknown): void;
}) {
  const { label, path, value, problem, change } = props;
  // The control is chosen once: typing does not change it.
  const [field] = useState(() => editableField(props.field, value));
  const { kind, isRequired, schema } = field;
  const help =
    kind === props.field.kind ? field.help : `${field.help} As JSON, since plain lines would change the value.`;
  // The text as typed: the value may have another notation.
  const [typed, setTyped] = useState(() => fieldText(field, value));
  const set = (text: string): void => {
    setTyped(text);
    change(fieldValue(field, text));
  };
  const defaultText = schema.default === undefined ? "" : String(schema.default);
  return (
    <Labelled {...{ label, path, help, problem }}>
      {(described) => {
        const shared = { ...described, required: isRequired, value: typed };
        const onInput = (event: { currentTarget: { value: string } }): void => set(event.currentTarget.value);
        switch (kind) {
          case "flag":
          case "choice":
            return (
              <select {...shared} onChange={onInput}>
                <option value="">{defaultText === "" ? "–" : `${defaultText} (default)`}</option>
                {(kind === "flag" ? ["true", "false"] : (schema.enum ?? [])).map((choice) => (
                  <option key={choice}>{choice}</option>
                ))}
              </select>
            );
          case "lines":
          case "pairs":
          case "json":
            return (
              <textarea
                {...shared}
                class="mono"
                spellcheck={false}
                rows={Math.min(8, typed.split("\n").length + 1)}
                placeholder={kind === "lines" ? "one per line" : kind === "pairs" ? "NAME=value, one per line" : "JSON"}
                onInput={onInput}
              />
            );
          default:
            return (
              <input
                {...shared}
                inputMode={kind === "number" ? "numeric" : "text"}
                spellcheck={false}
                autocomplete="off"
                maxLength={schema.maxLength}
                placeholder={defaultText}
                onInput={onInput}
              />
            );
        }
      }}
    </Labelled>
  );
}
