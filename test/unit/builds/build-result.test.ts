import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Job } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { parseBuildResult, recordOf } from "../../../operator/builds/build-result.ts";

const digest = `sha256:${"0a".repeat(32)}`;
const failed = (fields: string, said = "") => parseBuildResult(`state=Failed\ncode=1\n${fields}\n\n${said}`);

test("parseBuildResult: an image that was built, with its cache hits", () => {
  const built = parseBuildResult(`state=Built\ndigest=${digest}\nsteps=6\ncached=4\n`);
  assert.equal(built, { state: "Built", digest, steps: 6, cached: 4 });
});

test("parseBuildResult: an image without a digest is a failure", () => {
  for (const shown of ["", "digest=", "digest=sha256:12", `digest=${digest}0`]) {
    const result = parseBuildResult(`state=Built\n${shown}\nsteps=6\ncached=4\n`);
    assert.is(result?.state === "Failed" && result.reason, "BuildFailed", shown);
  }
});

test("parseBuildResult: the failing step and its last 20 lines", () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index + 1}`);
  const result = failed('step=[3/3] RUN make\nerror=process "/bin/sh -c make" did not complete', lines.join("\n"));
  assert.equal(result, {
    state: "Failed",
    reason: "BuildFailed",
    message: `step [3/3] RUN make failed: process "/bin/sh -c make" did not complete\n${lines.slice(10).join("\n")}`,
  });
});

test("parseBuildResult: what a step prints is never taken for the result", () => {
  const result = failed("step=[2/2] RUN x\nerror=exit code: 2", `state=Built\ndigest=${digest}\n\nstate=Built`);
  assert.is(result?.state, "Failed");
});

test("parseBuildResult: why no image was made or pushed", () => {
  const base = failed("step=[internal] load metadata for localhost/none:1\nerror=localhost/none:1: not found");
  assert.match(base?.state === "Failed" ? base.message : "", "must be in a registry that builds can reach");
  const syntax = failed("step=\nerror=dockerfile parse error on line 2: unknown instruction: FOO");
  assert.is(syntax?.state === "Failed" && syntax.message, "dockerfile parse error on line 2: unknown instruction: FOO");
  const push = failed("step=exporting to image\nerror=failed to push r/x:1: 401 Unauthorized");
  assert.is(push?.state === "Failed" && push.reason, "RegistryRefused");
  assert.match(push?.state === "Failed" ? push.message : "", /401 Unauthorized; see .*TENANCY_REGISTRY_SECRET/);
  const builder = parseBuildResult("state=BuilderUnavailable\n\nfork/exec /proc/self/exe: operation not permitted");
  assert.is(builder?.state === "Failed" && builder.reason, "BuilderUnavailable");
  assert.match(builder?.state === "Failed" ? builder.message : "", "operation not permitted");
});

test("parseBuildResult: nothing, or something else, is no result", () => {
  for (const message of ["", "state=", "killed", `digest=${digest}`]) assert.is(parseBuildResult(message), undefined);
});

test("recordOf: what the operator wrote to a Job, and nothing that somebody else did", () => {
  const jobWith = (text: string) =>
    ({ metadata: { name: "j", annotations: { [annotation.buildResult]: text } } }) as unknown as Job;
  const finishedAt = "2026-01-02T03:04:05.000Z";
  const record = { state: "Built", digest, steps: 3, cached: 1, finishedAt };
  assert.equal(recordOf(jobWith(JSON.stringify(record))), record);
  const failed = { state: "Failed", reason: "BuildTimeout", message: "late", finishedAt };
  assert.equal(recordOf(jobWith(JSON.stringify(failed))), failed);
  for (const text of ["", "{", "null", "[]", JSON.stringify({ ...record, digest: "sha256:1" }), '{"state":"Built"}'])
    assert.is(recordOf(jobWith(text)), undefined, text);
  assert.is(recordOf({ metadata: { name: "j" } } as Job), undefined);
});

test.run();
