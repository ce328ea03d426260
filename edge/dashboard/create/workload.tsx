import { call } from "../api/call.ts";
import { navigate } from "../route.ts";
import { SpecForm } from "../workloads/spec-form.tsx";

export default function CreateWorkload() {
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/workloads">Workloads</a>
      </p>
      <h1>Create a workload</h1>
      <SpecForm
        schema="WorkloadSpec"
        spec={{}}
        name={undefined}
        verb="Create"
        onCancel={() => navigate("/dashboard/workloads")}
        write={async ({ name, spec, dryRun, signal }) => {
          await call("POST", `/workloads${dryRun ? "?dryRun=true" : ""}`, {
            body: { name, spec },
            ...(signal !== undefined && { signal }),
          });
          if (!dryRun) navigate(`/dashboard/workloads/${encodeURIComponent(name)}`);
        }}
      />
    </>
  );
}
