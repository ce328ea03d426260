import { call } from "../api/call.ts";
import { navigate, type PageParams, place } from "../route.ts";
import { SpecForm } from "./spec-form.tsx";

const kinds: Readonly<Record<string, { path: string; schema: string }>> = {
  workload: { path: "/workloads", schema: "WorkloadSpec" },
  pool: { path: "/pools", schema: "PoolSpec" },
  trigger: { path: "/triggers", schema: "TriggerSpec" },
};

/** Creates a workload, a pool or a trigger; `?workload=` preselects the workload. */
export default function Create({ params }: { params: PageParams }) {
  const { kind = "" } = params;
  const found = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (found === undefined) return <h1>Cannot create this kind of object</h1>;
  const { path, schema } = found;
  const workloadRef = place.value.searchParams.get("workload") ?? undefined;
  return (
    <>
      <p class="crumbs">
        <a href={`/dashboard${path}`}>{`${kind[0]?.toUpperCase()}${kind.slice(1)}s`}</a>
      </p>
      <h1>Create {kind}</h1>
      <SpecForm
        key={kind}
        schema={schema}
        spec={workloadRef === undefined ? {} : { workloadRef }}
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
    </>
  );
}
