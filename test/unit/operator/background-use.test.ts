import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { ExecError } from "../../../crds/client/exec/exec-outcome.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { backgroundUse } from "../../../operator/claim/background-use.ts";
import { testOperator } from "./test-operator.ts";

const claim: Claim = { metadata: { name: "c" }, spec: { tenantId: "a", workloadRef: "w" } };

function pod({ isAsked = true, isRunning = true } = {}): Pod {
  const state = isRunning ? { running: {} } : { terminated: { exitCode: 1 } };
  return {
    metadata: { name: "p", uid: "uid", annotations: isAsked ? { [annotation.countBackground]: "true" } : {} },
    spec: { containers: [] },
    status: {
      containerStatuses: [{ name: WORKLOAD_CONTAINER, image: "i", ready: isRunning, restartCount: 0, state }],
    },
  };
}

/** Asks until there is an answer, or a failure. */
async function use(exec: Exec, of = pod()) {
  const { context } = testOperator({ exec });
  const answered = createDeferred<void>();
  context.enqueueClaim = () => answered.resolve();
  const first = backgroundUse(claim, of, context);
  if (first.isKnown) return first;
  assert.is(first.result, undefined);
  await answered.promise;
  return backgroundUse(claim, of, context);
}

function prints(text: string, exitCode = 0): Exec {
  return async ({ stdout }) => {
    stdout?.write(text);
    return { exitCode, stderr: "" };
  };
}

const mayNotAsk: Exec = async () => {
  throw new Error("nothing was to be asked");
};

test("backgroundUse: only a pod whose workload asks for it is asked, and only while its program runs", async () => {
  for (const of of [pod({ isAsked: false }), pod({ isRunning: false })])
    assert.equal(await use(mayNotAsk, of), { isKnown: true, value: undefined });
});

test("backgroundUse: a process that runs is a use now, and one that has ended a use at its end", async () => {
  const began = performance.now();
  const running = await use(prints('{"unusedMs":0}\n'));
  assert.ok(running.isKnown && (running.value ?? 0) >= began);
  const asked = performance.now();
  const ended = await use(prints('{"unusedMs":5000}\n'));
  const endedAt = ended.isKnown ? (ended.value ?? 0) : 0;
  assert.ok(endedAt >= asked - 5000 && endedAt <= performance.now() - 5000);
  assert.equal(await use(prints('{"unusedMs":null}\n')), { isKnown: true, value: undefined });
});

test("backgroundUse: a pod without tools has no such processes", async () => {
  const withoutTools: Exec = async () => {
    throw new ExecError("no such file", { reason: "CommandNotFound" });
  };
  assert.equal(await use(withoutTools), { isKnown: true, value: undefined });
});

test("backgroundUse: whatever else a pod answers, it is asked again", async () => {
  const gone: Exec = async () => {
    throw new ExecError("container not found", { reason: "ContainerNotRunning" });
  };
  const answers = ["", "null", "{}", '{"unusedMs":-1}', '{"unusedMs":"0"}'].map((text) => prints(text));
  for (const exec of [gone, prints('{"unusedMs":null}', 1), ...answers]) {
    const answer = await use(exec);
    assert.ok(!answer.isKnown && (answer.result?.requeueAfterMs ?? 0) > 0);
  }
});

test.run();
