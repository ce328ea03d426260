import { useState } from "preact/hooks";
import { useLoad } from "../api/load.ts";
import { Command, curlLine } from "../parts/command.tsx";
import { Problem, Reading } from "../parts/problem.tsx";
import { capital } from "./capital.ts";

const notations = ["YAML", "tenancy", "curl"] as const;

/**
 * What the form holds, as a manifest for `kubectl apply` and as commands that write it.
 *
 * @param props.noun such as `workload`
 * @param props.isNew whether the object is to be created; it is replaced otherwise
 */
export function SameAs(props: { noun: string; name: string; spec: object; isNew: boolean }) {
  const { noun, name, spec, isNew } = props;
  const [isOpen, setOpen] = useState(false);
  const [shown, setShown] = useState<(typeof notations)[number]>("YAML");
  const yaml = useLoad(isOpen ? "yaml" : undefined, async () => (await import("./as-yaml.ts")).stringify);
  return (
    <details class="group" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <b>The same as text</b> <span class="muted">{notations.join(", ")}</span>
      </summary>
      <div class="acts">
        {notations.map((notation) => (
          <button key={notation} type="button" aria-pressed={shown === notation} onClick={() => setShown(notation)}>
            {notation}
          </button>
        ))}
      </div>
      <Reading of={yaml} />
      <Problem error={yaml.error} />
      {yaml.value !== undefined && <Command line={lineOf(yaml.value)} />}
    </details>
  );

  function lineOf(stringify: (value: object) => string): string {
    if (shown === "curl") {
      const path = `/${noun}s`;
      return isNew ? curlLine(path, { name, spec }) : curlLine(`${path}/${name}`, { spec }, { method: "PUT" });
    }
    const kind = `Tenancy${capital(noun)}`;
    const manifest = stringify({ apiVersion: "tenancy.dev/v1alpha1", kind, metadata: { name }, spec });
    // Every line of the spec is indented, so none of them ends the document.
    return shown === "YAML" ? manifest : `tenancy apply --url ${location.origin} -f - <<'END'\n${manifest}END`;
  }
}
