import { call } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { Problem, Reading } from "../parts/problem.tsx";
import { navigate, type PageParams, place } from "../route.ts";
import { capital } from "./capital.ts";
import { SpecForm } from "./spec-form.tsx";

interface Named {
  readonly spec: Readonly<Record<string, unknown>>;
}

/**
 * Creates a workload, a pool or a trigger: `?workload=` preselects the workload, `?from=` begins with the spec of
 * another object of the kind.
 */
export default function Create({ params }: { params: PageParams }) {
  const { kind = "" } = params;
  const path = `/${kind}s`;
  const from = place.value.searchParams.get("from");
  const workloadRef = place.value.searchParams.get("workload");
  const isKnown = ["workload", "pool", "trigger"].includes(kind);
  const fromPath = isKnown && from !== null ? `${path}/${encodeURIComponent(from)}` : undefined;
  const model = useLoad(fromPath, (signal) => call<Named>("GET", fromPath ?? "", { signal }));
  if (!isKnown) return <h1>Cannot create this kind of object</h1>;
  const spec = from !== null ? model.value?.spec : workloadRef !== null ? { workloadRef } : {};
  return (
    <>
      <p class="crumbs">
        <a href={`/dashboard${path}`}>{capital(kind)}s</a>
      </p>
      <h1>Create {kind}</h1>
      {from !== null && (
        <>
          {model.value !== undefined && <p class="muted">With the spec of {from}.</p>}
          <Reading of={model} />
          <Problem error={model.error} />
        </>
      )}
      {spec !== undefined && (
        <SpecForm
          key={`${kind} ${from}`}
          noun={kind}
          spec={spec}
          name={undefined}
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
