import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseBuildResult } from "../../../operator/builds/build-result.ts";
import { buildScript } from "../../../operator/builds/build-script.ts";

const test = suite<{ folder: string }>("build script");
const DIGEST = `sha256:${"1".repeat(64)}`;
const OTHER = `sha256:${"f".repeat(64)}`;

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-build-"));
  for (const name of ["bin", "tmp", "dev"]) mkdirSync(join(context.folder, name));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

function program(folder: string, name: string, text: string): void {
  writeFileSync(join(folder, "bin", name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
}

/** Runs it with the programs there are, and what the operator reads of it. */
function run(folder: string) {
  const script = buildScript
    .replaceAll("/tmp", `${folder}/tmp`)
    .replaceAll("/dev/termination-log", `${folder}/dev/termination-log`);
  const env = { PATH: `${folder}/bin:${process.env.PATH}`, CONFIG: "" };
  const words = ["-c", script, "build", "r.example/w", "tag", "Dockerfile"];
  const { status, stdout } = spawnSync("sh", words, { env, encoding: "utf8" });
  return { status, stdout, result: parseBuildResult(readFileSync(join(folder, "dev/termination-log"), "utf8")) };
}

/** Runs it beside a builder that prints this. */
function build(folder: string, { log, metadata = "", code }: { log: string; metadata?: string; code: number }) {
  writeFileSync(join(folder, "log"), log);
  writeFileSync(join(folder, "metadata"), metadata);
  program(folder, "rootlesskit", "exec sleep 60");
  const answer = `cat ${folder}/log; cp ${folder}/metadata ${folder}/tmp/metadata.json; exit ${code}`;
  program(folder, "buildctl", `[ "$1" != debug ] || exit 0\n${answer}`);
  const { status, stdout, result } = run(folder);
  assert.equal([status, stdout], [code, log]);
  return result;
}

test("the digest is the image's own, whatever a frontend adds to the metadata", ({ folder }) => {
  const metadata = `{
  "containerimage.descriptor": {
    "containerimage.digest": "${OTHER}"
  },
  "containerimage.digest": "${DIGEST}",
  "frontend.x": {
    "containerimage.digest": "${OTHER}"
  }
}
`;
  const log = [
    "#1 [internal] load build definition from Dockerfile",
    "#4 [1/3] FROM localhost/base:1",
    "#5 [2/3] COPY . .",
    "#5 CACHED",
    "#6 [3/3] RUN make",
    "#6 0.1 made",
    "",
  ].join("\n");
  assert.equal(build(folder, { log, metadata, code: 0 }), { state: "Built", digest: DIGEST, steps: 2, cached: 1 });
});

test("the step that failed is the first that says so: a build file cannot name another behind it", ({ folder }) => {
  const log = [
    "#5 [2/2] RUN echo it",
    "#5 0.1 it",
    '#5 ERROR: process "echo a',
    "#9 exporting to image",
    '#9 ERROR: failed to push" did not complete successfully: exit code: 1',
    "error: failed to solve: it",
    "",
  ].join("\n");
  const result = build(folder, { log, code: 1 });
  assert.equal(result, {
    state: "Failed",
    reason: "BuildFailed",
    message: 'step [2/2] RUN echo it failed: process "echo a\nit',
  });
});

// As BuildKit 0.26 prints it.
test("a COPY of what is not there names its step and the file, not the builder's cache keys", ({ folder }) => {
  const log = [
    "#4 importing cache manifest from r.example/w:cache",
    "#4 ERROR: failed to configure registry cache importer: r.example/w:cache: not found",
    "#6 [1/2] FROM localhost/base:1",
    "#7 [2/2] COPY missing /missing",
    "#7 CANCELED",
    "------",
    " > importing cache manifest from r.example/w:cache:",
    "------",
    "Dockerfile:2",
    "--------------------",
    "   1 |     FROM localhost/base:1",
    "   2 | >>> COPY missing /missing",
    "   3 |     ",
    "--------------------",
    'error: failed to solve: failed to compute cache key: failed to calculate checksum of ref z69b::xsjp: "/missing": not found',
    "",
  ].join("\n");
  assert.equal(build(folder, { log, code: 1 }), {
    state: "Failed",
    reason: "BuildFailed",
    message:
      'step [2/2] COPY missing /missing failed: "/missing" does not exist: add it to the build context (see .dockerignore), or to the stage or image of --from',
  });
});

test("a push that fails is the registry's; a cache that cannot be read is nothing", ({ folder }) => {
  const log = [
    "#2 importing cache manifest from r.example/w:cache",
    "#2 ERROR: r.example/w:cache: not found",
    "#7 exporting to image",
    "#7 ERROR: failed to push r.example/w:tag: connection refused",
    "",
  ].join("\n");
  const result = build(folder, { log, code: 1 });
  assert.is(result?.state === "Failed" && result.reason, "RegistryRefused");
  assert.match(result?.state === "Failed" ? result.message : "", "connection refused");
});

test("of what the step printed the last 20 lines are told", ({ folder }) => {
  const lines = Array.from({ length: 30 }, (_, index) => `#5 0.1 line ${index}`);
  const log = ["#5 [2/2] RUN make", ...lines, "#5 ERROR: exit code: 2", "#6 0.1 another's", ""].join("\n");
  const result = build(folder, { log, code: 2 });
  const [first, ...told] = (result?.state === "Failed" ? result.message : "").split("\n");
  assert.is(first, "step [2/2] RUN make failed: exit code: 2");
  assert.equal(
    told,
    Array.from({ length: 20 }, (_, index) => `line ${index + 10}`),
  );
});

test("a builder that ends before it answers says why", ({ folder }) => {
  program(folder, "rootlesskit", "echo '[rootlesskit:parent] error: no user namespaces'; exit 1");
  program(folder, "buildctl", "exit 1");
  const { status, result } = run(folder);
  assert.is(status, 70);
  assert.is(result?.state === "Failed" && result.reason, "BuilderUnavailable");
  assert.match(result?.state === "Failed" ? result.message : "", "no user namespaces");
});

test.run();
