import { useId } from "preact/hooks";

interface Described {
  readonly id: string;
  readonly "aria-describedby": string;
  readonly "aria-invalid": boolean;
}

/** A control with its label, help and problem. */
export function Labelled(props: {
  label: string;
  /** Where the value is in the spec. */
  path?: string | undefined;
  help: string;
  problem: string | undefined;
  children: (described: Described) => preact.JSX.Element;
}) {
  const { label, path, help, problem = "", children } = props;
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": `${id}-help ${id}-problem`, "aria-invalid": problem !== "" })}
      <p id={`${id}-help`} class="muted">
        {help}
        {path !== undefined && <code> {path}</code>}
      </p>
      <p id={`${id}-problem`} class="is-bad">
        {problem}
      </p>
    </div>
  );
}
