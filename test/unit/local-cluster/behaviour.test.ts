import { test } from "uvu";
import * as assert from "uvu/assert";
import { BEHAVIOUR_ANNOTATION, behaviourOf } from "../../../scripts/cluster/simulated/behaviour.ts";
import type { Pod } from "../../../scripts/cluster/simulated/pod.ts";
import { statusSteps } from "../../../scripts/cluster/simulated/pod-status.ts";

function pod(spec: Partial<Pod["spec"]> = {}, annotation?: string): Pod {
  return {
    metadata: {
      ...{ name: "p", namespace: "n", uid: "u" },
      ...(annotation !== undefined && { annotations: { [BEHAVIOUR_ANNOTATION]: annotation } }),
    },
    spec: { containers: [{ name: "main", image: "some/image:1" }], ...spec },
  };
}

function steps(subject: Pod): Record<string, unknown>[] {
  const options = { podIP: "10.64.0.1", hostIP: "10.63.0.0", readyAfterMs: 50 };
  return statusSteps(subject, { ...options, behaviour: behaviourOf(subject) }).map(({ status }) => status);
}

for (const [image, expected] of [
  ["simulated/missing:1", "image-pull-back-off"],
  ["registry.example:5000/simulated/crash@sha256:0", "crash-loop"],
  ["simulated/slow-stop", "slow-stop"],
  ["simulated/something-else:1", "normal"],
  ["not-simulated/crash:1", "normal"],
] as const) {
  test(`behaviourOf takes ${image} for ${expected}`, () => {
    assert.is(behaviourOf(pod({ containers: [{ name: "main", image }] })).behaviour, expected);
  });
}

for (const [podContext, containerContext, expected] of [
  [undefined, undefined, "normal"],
  [{ runAsNonRoot: true }, undefined, "run-as-root-refused"],
  [{ runAsNonRoot: true }, { runAsUser: 1000 }, "normal"],
  [{ runAsNonRoot: true }, { runAsNonRoot: false }, "normal"],
  [{ runAsUser: 1000 }, { runAsNonRoot: true }, "normal"],
  [undefined, { runAsNonRoot: true }, "run-as-root-refused"],
] as const) {
  test(`behaviourOf a root image, pod ${JSON.stringify(podContext)}, container ${JSON.stringify(containerContext)}`, () => {
    const container = {
      ...{ name: "main", image: "simulated/root:1" },
      ...(containerContext && { securityContext: containerContext }),
    };
    const subject = pod({ containers: [container], ...(podContext && { securityContext: podContext }) });
    assert.is(behaviourOf(subject).behaviour, expected);
  });
}

test("behaviourOf lets the annotation win over the image, as a word or as JSON", () => {
  const containers = [{ name: "main", image: "simulated/crash:1" }];
  assert.equal(behaviourOf(pod({ containers }, "never-ready")), { behaviour: "never-ready" });
  assert.equal(behaviourOf(pod({ containers }, '{"behaviour":"normal","readyAfterMs":5}')), {
    behaviour: "normal",
    readyAfterMs: 5,
  });
  assert.throws(() => behaviourOf(pod({}, "explode")), /Cannot simulate the behaviour "explode"/);
});

test("statusSteps keeps a pod pending whose init container cannot start", () => {
  const last = steps(pod({ initContainers: [{ name: "first", image: "simulated/missing:1" }] })).at(-1) as {
    phase: string;
    initContainerStatuses: { state: { waiting: { reason: string } } }[];
    containerStatuses: { state: { waiting: { reason: string } } }[];
  };
  assert.is(last.phase, "Pending");
  assert.is(last.initContainerStatuses[0]?.state.waiting.reason, "ImagePullBackOff");
  assert.is(last.containerStatuses[0]?.state.waiting.reason, "PodInitializing");
});

test("statusSteps waits for readiness gates", () => {
  const subject = pod({ readinessGates: [{ conditionType: "example.com/gate" }] });
  const ready = (status: unknown) =>
    (status as { conditions: { type: string; status: string }[] }).conditions.find(({ type }) => type === "Ready")
      ?.status;
  assert.is(ready(steps(subject)[0]), "False");
  subject.status = { conditions: [{ type: "example.com/gate", status: "True" }] };
  assert.is(ready(steps(subject)[0]), "True");
});

test.run();
