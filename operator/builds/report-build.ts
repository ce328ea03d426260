import { workloads } from "../../crds/kinds.ts";
import type { ConditionNow } from "../../crds/schema/condition.ts";
import type { BuildStatus, Workload } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";

/** The condition beside `Ready`: a build that fails or is under way leaves what was built before. */
export function builtConditions(image: string | undefined, build: BuildStatus | undefined): ConditionNow[] {
  if (build === undefined) return [];
  const { state, reason, message = "" } = build;
  if (state === "Built") return [{ type: "Built", status: "True", reason: "Built", message: `Pods run ${image}` }];
  const until = image === undefined ? "" : `${message === "" ? "" : "; "}until it is built, pods run ${image}`;
  return [{ type: "Built", status: "False", reason: reason ?? state, message: `${message}${until}` }];
}

/** Tells of a build that has begun, and of how it ended. */
export function reportBuild(workload: Workload, build: BuildStatus, { events }: OperatorContext): void {
  const before = workload.status?.build;
  const isSame = before?.key === build.key && before?.state === build.state && before.finishedAt === build.finishedAt;
  if (isSame && before.reason === build.reason && before.startedAt === build.startedAt) return;
  const about = { resource: workloads, object: workload };
  const { state, reason = state, message = "", digest, steps = 0, cached = 0 } = build;
  switch (state) {
    case "Built": {
      const found = `${digest}, ${cached} of ${steps} steps from the cache`;
      events.record({ ...about, type: "Normal", reason: "Built", message: `the image is built: ${found}` });
      return;
    }
    case "Building":
      events.record({ ...about, type: "Normal", reason: "BuildStarted", message: `build ${build.key} has begun` });
      return;
    case "Failed":
      events.record({ ...about, type: "Warning", reason, message });
      return;
    case "Pending":
      if (build.finishedAt !== undefined) events.record({ ...about, type: "Warning", reason, message });
      return;
    default:
      state satisfies never;
  }
}
