import { test } from "uvu";
import * as assert from "uvu/assert";
import { workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { rememberRoot } from "../../../operator/workload/remember-root.ts";
import { testOperator } from "./test-operator.ts";

const digest = (digit: string) => `sha256:${digit.repeat(64)}`;

function podOf(image: string): Pod {
  return {
    metadata: { name: "p", labels: { [label.workload]: "w" } },
    spec: { containers: [{ name: WORKLOAD_CONTAINER, image }] },
  };
}

/** Whether it is remembered on the workload that this pod's image runs as root. */
async function isRemembered(workload: Pick<Workload, "spec" | "status">, image: string): Promise<boolean> {
  const { api, context } = testOperator();
  api.add(workloads, { metadata: { name: "w" }, ...workload });
  await rememberRoot(podOf(image), context);
  return api.read(workloads, "w").status?.runsAsRoot === true;
}

test("rememberRoot: an image that is named counts whatever admission has made of its name", async () => {
  const named = { spec: { image: { ref: "app:1" } } };
  assert.ok(await isRemembered(named, "app:1"));
  assert.ok(await isRemembered(named, `mirror.example/library/app:1@${digest("1")}`));
});

test("rememberRoot: of an image that is built it counts by its digest, so that an older one's does not", async () => {
  const built: Pick<Workload, "spec" | "status"> = {
    spec: { image: { dockerfile: "Dockerfile" } },
    status: { phase: "Ready", image: `r.example/built/w@${digest("1")}` },
  };
  assert.ok(await isRemembered(built, `r.example/built/w@${digest("1")}`));
  assert.ok(await isRemembered(built, `mirror.example/w@${digest("1")}`));
  assert.not.ok(await isRemembered(built, `r.example/built/w@${digest("2")}`));
  assert.not.ok(await isRemembered(built, "app:1"));
});

test.run();
