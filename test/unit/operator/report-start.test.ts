import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { ApiError } from "../../../crds/client/api-error.ts";
import { events } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { CoreEvent, Pod } from "../../../crds/kubernetes.ts";
import { conclude } from "../../../operator/claim/conclude.ts";
import { reportStart } from "../../../operator/claim/reconcile-starting.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("reportStart");

const LONG_AGO = Date.parse("2026-01-01T00:00:00Z");
const STATUS_SAYS = "the container runs, and its health check has not passed yet";
const pod: Pod = {
  metadata: { name: "p", uid: "pod-uid" },
  spec: {
    containers: [
      {
        name: "workload",
        image: "i",
        ports: [{ containerPort: 8080 }],
        readinessProbe: { httpGet: { path: "/", port: 8081 } },
      },
    ],
  },
  status: {
    containerStatuses: [
      {
        ...{ name: "workload", ready: false, restartCount: 0, image: "i" },
        state: { running: { startedAt: "2026-01-01T00:00:00Z" } },
      },
    ],
  },
};
const refused: CoreEvent = {
  metadata: { name: "e" },
  involvedObject: { uid: "pod-uid" },
  reason: "Unhealthy",
  message: 'Startup probe failed: Get "http://10.0.0.1:8081/": dial tcp 10.0.0.1:8081: connect: connection refused',
  lastTimestamp: "2026-01-01T00:00:09Z",
};

function waitingClaim(status: Partial<ClaimStatus> = {}) {
  let woken: () => void = () => undefined;
  const { api, context } = testOperator({ enqueueClaim: () => woken() });
  api.add(events, refused);
  api.add(claims, {
    metadata: { name: "claim-t-w", creationTimestamp: new Date().toISOString() },
    spec: { tenantId: "t", workloadRef: "w" },
    status: { phase: "Pending", ...status },
  });
  const claim = () => api.read(claims, "claim-t-w");
  const tell = (startedAt: number, message = STATUS_SAYS) => reportStart(claim(), { pod, message, startedAt }, context);
  return {
    ...{ api, context, tell, claim },
    asked: () => api.calls.flatMap(({ verb, body }) => (verb === "list" ? [body] : [])),
    written: () =>
      api.calls.flatMap(({ verb, body }) => {
        if (verb !== "patch") return [];
        const { phase, reason, message } = (body as Claim).status ?? {};
        return [{ phase, reason, message }];
      }),
    /** Starts a look and waits for its end. */
    async look() {
      const ended = new Promise<void>((resolve) => {
        woken = resolve;
      });
      assert.is(await tell(LONG_AGO), undefined);
      await ended;
      return tell(LONG_AGO);
    },
  };
}

test("a start of less than five seconds costs no request", async () => {
  const { tell, asked, written } = waitingClaim();
  const result = await tell(Date.now());
  assert.ok((result?.requeueAfterMs ?? 0) > 3000 && (result?.requeueAfterMs ?? 0) <= 5000);
  assert.equal([asked(), written()], [[], []]);
});

test("a longer one is looked into once, by its pod's own Events, and said on the claim", async () => {
  const { look, tell, asked, written } = waitingClaim();
  const result = await look();
  assert.ok((result?.requeueAfterMs ?? 0) > 0);
  assert.equal(asked(), ["involvedObject.uid=pod-uid"]);
  assert.equal(written(), [
    {
      ...{ phase: "Pending", reason: "Unhealthy" },
      message:
        "the health check failed at 2026-01-01T00:00:09Z: connection refused on port 8081 (spec.health.httpGet.port); the workload declares 8080",
    },
  ]);
  const again = await tell(LONG_AGO);
  assert.ok((again?.requeueAfterMs ?? 0) > 0);
  assert.equal([asked().length, written().length], [1, 1]);
});

test("Events that may not be read leave what the pod's status says", async () => {
  const { api, look, written } = waitingClaim();
  api.onNext("list", new ApiError("no", { status: 403, reason: "Forbidden" }));
  await look();
  assert.equal(written(), [{ phase: "Pending", reason: "Starting", message: STATUS_SAYS }]);
});

test("a claim that no node could take is told at once when one has", async () => {
  const { tell, written, asked } = waitingClaim({ reason: "Unschedulable", message: "0/1 nodes" });
  await tell(Date.now(), "the pod is being set up");
  assert.equal(written(), [{ phase: "Pending", reason: "Starting", message: "the pod is being set up" }]);
  assert.equal(asked(), []);
});

test("what else a claim waits for is said after five seconds, once", async () => {
  const { context, written, claim } = waitingClaim();
  const told = { reason: "WorkloadNotReady", message: "workload w has not been checked yet" };
  const soon = await conclude(claim(), { next: "wait", ...told, since: Date.now() }, context);
  assert.ok((soon?.requeueAfterMs ?? 0) > 3000);
  assert.equal(written(), []);
  for (let count = 0; count < 2; count += 1)
    assert.is(await conclude(claim(), { next: "wait", ...told, since: LONG_AGO }, context), undefined);
  assert.equal(written(), [{ phase: "Pending", ...told }]);
});

test.run();
