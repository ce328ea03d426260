import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fullName, loadImage } from "../../../scripts/cluster/images/load-image.ts";

const test = suite("loadImage");
const folder = mkdtempSync(join(tmpdir(), "tenancy-load-test-"));
test.after(() => rmSync(folder, { recursive: true }));

function tarOf(name: string, files: Record<string, unknown>): string {
  const content = join(folder, `${name}-content`);
  mkdirSync(content);
  for (const [file, value] of Object.entries(files)) writeFileSync(join(content, file), JSON.stringify(value));
  execFileSync("tar", ["-cf", join(folder, name), "-C", content, "."]);
  return join(folder, name);
}

async function refusal(source: string): Promise<string> {
  try {
    await loadImage("no-such-cluster", source);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

test("what is no image is refused with what it lacks", async () => {
  assert.match(await refusal("my-app:1"), /my-app:1: there is no such file or folder; .* is docker:\/\/my-app:1$/);
  const text = join(folder, "text.tar");
  writeFileSync(text, "no tar at all, but long enough for tar to look at it ".repeat(50));
  assert.match(await refusal(text), /it is no tar file/);
  assert.match(await refusal(tarOf("files.tar", { "readme.json": 1 })), /neither manifest\.json .* nor index\.json/);
  assert.match(await refusal(folder), /no OCI layout, since it holds no index\.json/);
  assert.match(
    await refusal(tarOf("by-id.tar", { "manifest.json": [{ Config: "c", RepoTags: null, Layers: [] }] })),
    /save it by its name and not by its id/,
  );
  assert.match(await refusal(tarOf("empty.tar", { "index.json": { manifests: [] } })), /there is no image in it/);
});

test("an image of a Docker that is not there is refused with how to bring it here", async () => {
  const { PATH } = process.env;
  process.env.PATH = folder;
  try {
    assert.match(
      await refusal("docker://my-app:1"),
      /no docker on this machine; .*"docker save -o image\.tar my-app:1"/,
    );
  } finally {
    process.env.PATH = PATH;
  }
});

// As https://github.com/distribution/reference reads them.
for (const [ref, name] of [
  ["app", "docker.io/library/app:latest"],
  ["app:1", "docker.io/library/app:1"],
  ["team/app", "docker.io/team/app:latest"],
  ["localhost/app:1", "localhost/app:1"],
  ["localhost:5000/app", "localhost:5000/app:latest"],
  ["registry.example/team/app:1", "registry.example/team/app:1"],
  [`app@sha256:${"0".repeat(64)}`, `docker.io/library/app@sha256:${"0".repeat(64)}`],
] as const) {
  test(`${ref} is ${name} in full`, () => assert.is(fullName(ref), name));
}

test.run();
