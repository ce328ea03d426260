import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findPolicyEngine } from "../../../scripts/cluster/policies/find-engine.ts";

const test = suite<{ folder: string; environment: NodeJS.ProcessEnv }>("findPolicyEngine");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "policy-engine-test-"));
  context.environment = { XDG_CACHE_HOME: context.folder, PATH: `${context.folder}:${process.env.PATH}` };
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

function program(path: string, script: string): string {
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

test("takes the one in TENANCY_K8S_BIN", async ({ folder, environment }) => {
  const path = program(join(folder, "network-policies"), "");
  assert.equal(await findPolicyEngine({ environment: { ...environment, TENANCY_K8S_BIN: folder } }), { path });
});

const go = (rest: string) => `[ "$1" = env ] && echo go1.26.0 && exit\n${rest}`;

test("builds it once, and finds it after that", async ({ folder, environment }) => {
  const script = `for last; do [ "$previous" = -o ] && output=$last; previous=$last; done
[ "$1" = build ] && echo built >> ${folder}/builds && cp ${folder}/go "$output/network-policies"; exit 0`;
  program(join(folder, "go"), go(script));
  const [first, second] = await Promise.all([findPolicyEngine({ environment }), findPolicyEngine({ environment })]);
  assert.ok("path" in first);
  assert.equal(second, first);
  const lines: string[] = [];
  assert.equal(await findPolicyEngine({ environment, log: (line) => lines.push(line) }), first);
  assert.equal(lines, []);
});

test("says why there is none where no module proxy answers, and throws nothing", async ({ folder, environment }) => {
  program(join(folder, "go"), go("echo no such host >&2; exit 1"));
  const found = await findPolicyEngine({ environment });
  assert.match("because" in found ? found.because : "", /^no Go module proxy answers: .*no such host/s);
});

test("says why there is none when the build fails, and throws nothing", async ({ folder, environment }) => {
  program(join(folder, "go"), go('[ "$1" = build ] && echo disk full >&2 && exit 1; exit 0'));
  const found = await findPolicyEngine({ environment });
  assert.match("because" in found ? found.because : "", /disk full/);
});

test.run();
