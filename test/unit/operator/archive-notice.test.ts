import { test } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { findNotice } from "../../../operator/claim/archive-notice.ts";
import { conclude } from "../../../operator/claim/conclude.ts";
import { archive, runningHelper } from "../snapshots/helper-objects.ts";
import { testOperator } from "./test-operator.ts";

const pod: Pod = {
  metadata: { name: "p", namespace: "n", uid: "pod", annotations: { "tenancy.dev/source": "pool" } },
  spec: {
    containers: [
      { name: "workload", image: "i", ports: [{ containerPort: 8080 }], readinessProbe: { tcpSocket: { port: 8080 } } },
    ],
  },
  status: {
    phase: "Running",
    podIP: "10.0.0.1",
    conditions: [{ type: "Ready", status: "True" }],
    containerStatuses: [{ name: "workload", ready: true, restartCount: 0, image: "i", state: { running: {} } }],
  },
};

/** Runs a claim to Active, with a look at the archives that ends when it is told to. */
function start({ conflicts = 0 } = {}) {
  const look = createDeferred<SnapshotMetadata | undefined>();
  const answer = createDeferred<void>();
  const { api, context } = testOperator({ snapshots: { find: () => look.promise } });
  api.add(pods, runningHelper());
  const claim = api.add(claims, {
    metadata: { name: "c" },
    spec: { tenantId: "t", workloadRef: "w" },
    status: { phase: "Pending" },
  });
  api.onNext("patch", () => answer.promise);
  for (let count = 0; count < conflicts; count += 1)
    api.onNext("patch", () => void api.add(claims, api.read(claims, "c"), { hidden: true }));
  findNotice(claim, ["/data"], context);
  return {
    ...{ look, answer, active: () => conclude(claim, { next: "activate", pod }, context) },
    message: () => api.read(claims, "c").status?.message,
  };
}

const tick = () => new Promise((resolve) => setImmediate(resolve));

test("files found before the claim is Active are told with that", async () => {
  const run = start();
  run.look.resolve(archive);
  await tick();
  run.answer.resolve();
  await run.active();
  assert.match(run.message() ?? "", "version 0123456789abcdef");
});

test("files found while the write that makes it Active is under way are told after it", async () => {
  const run = start();
  const active = run.active();
  await tick();
  run.look.resolve(archive);
  await tick();
  run.answer.resolve();
  await active;
  assert.match(run.message() ?? "", "version 0123456789abcdef");
});

test("files found later are told then, also when somebody else writes the claim meanwhile", async () => {
  const run = start({ conflicts: 2 });
  run.answer.resolve();
  await run.active();
  assert.is(run.message(), undefined);
  run.look.resolve(archive);
  await tick();
  await tick();
  assert.match(run.message() ?? "", "version 0123456789abcdef");
});

test.run();
