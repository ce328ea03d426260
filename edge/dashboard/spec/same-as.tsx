import { useState } from "preact/hooks";
import { useLoad } from "../api/load.ts";
import { AsText } from "../parts/as-text.tsx";
import { curlLine } from "../parts/command.tsx";
import { Problem, Reading } from "../parts/problem.tsx";
import { capital } from "./capital.ts";

/**
 * What the form holds, as a manifest for `kubectl apply` and as commands that write it.
 *
 * @param props.noun such as `workload`
 * @param props.isNew whether the object is to be created; it is replaced otherwise
 */
export function SameAs(props: { noun: string; name: string; spec: object; isNew: boolean }) {
  const { noun, name, spec, isNew } = props;
  const [isOpen, setOpen] = useState(false);
  const yaml = useLoad(isOpen ? "yaml" : undefined, async () => (await import("./as-yaml.ts")).stringify);
  const kind = `Tenancy${capital(noun)}`;
  const manifest = yaml.value?.({ apiVersion: "tenancy.dev/v1alpha1", kind, metadata: { name }, spec });
  const path = `/${noun}s`;
  return (
    <AsText
      title="The same as text"
      texts={{
        YAML: manifest,
        // Every line of the spec is indented, so none of them ends the document.
        tenancy: manifest && `tenancy apply --url ${location.origin} -f - <<'END'\n${manifest}END`,
        curl: isNew ? curlLine(path, { name, spec }) : curlLine(`${path}/${name}`, { spec }, { method: "PUT" }),
      }}
      onOpen={() => setOpen(true)}
    >
      {isOpen && <Reading of={yaml} />}
      <Problem error={yaml.error} />
    </AsText>
  );
}
