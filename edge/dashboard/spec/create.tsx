import { call } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { Problem, Reading } from "../parts/problem.tsx";
import { navigate, type PageParams, place } from "../route.ts";
import { capital } from "./capital.ts";
import { SpecForm } from "./spec-form.tsx";
import { Templates, templateSpec, templates } from "./templates.tsx";

interface Named {
  readonly spec: Readonly<Record<string, unknown>>;
}

/**
 * Creates a workload, a pool or a trigger: `?workload=` preselects the workload; `?from=` begins with the spec of
 * another object of the kind, `?template=` with that of an example.
 */
export default function Create({ params }: { params: PageParams }) {
  const { kind = "" } = params;
  const path = `/${kind}s`;
  const asked = (name: string): string => place.value.searchParams.get(name) ?? "";
  const [from, template, workloadRef] = [asked("from"), asked("template"), asked("workload")];
  const isKnown = ["workload", "pool", "trigger"].includes(kind);
  const chosen = kind === "workload" ? templates.find(({ name }) => name === template) : undefined;
  const source = chosen !== undefined ? `template ${chosen.name}` : from ? `${path}/${encodeURIComponent(from)}` : "";
  const model = useLoad(isKnown ? source || undefined : undefined, async (signal) =>
    chosen !== undefined ? await templateSpec(chosen) : (await call<Named>("GET", source, { signal })).spec,
  );
  if (!isKnown) return <h1>Cannot create this kind of object</h1>;
  const spec = source !== "" ? model.value : workloadRef ? { workloadRef } : {};
  return (
    <>
      <p class="crumbs">
        <a href={`/dashboard${path}`}>{capital(kind)}s</a>
      </p>
      <h1>Create {kind}</h1>
      {kind === "workload" && !from && <Templates chosen={chosen} />}
      {source !== "" && (
        <>
          {model.value !== undefined && <p class="muted">{chosen?.needs ?? `With the spec of ${from}.`}</p>}
          <Reading of={model} />
          <Problem error={model.error} />
        </>
      )}
      {spec !== undefined && (
        <SpecForm
          key={`${kind} ${source}`}
          noun={kind}
          spec={spec}
          name={undefined}
          firstName={chosen?.name}
          verb="Create"
          onCancel={() => navigate(`/dashboard${path}`)}
          write={async ({ name, spec, dryRun, signal }) => {
            await call("POST", `${path}${dryRun ? "?dryRun=true" : ""}`, {
              body: { name, spec },
              ...(signal !== undefined && { signal }),
            });
            if (!dryRun) navigate(`/dashboard${path}/${encodeURIComponent(name)}`);
          }}
        />
      )}
    </>
  );
}
