import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { gitContextScript } from "../../../operator/builds/build-script.ts";

const test = suite<{ folder: string }>("context in Git");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-git-"));
  for (const name of ["git", "context", "bin", "tmp"]) mkdirSync(join(context.folder, name));
  // Shows what git would be run with, instead of a network.
  writeFileSync(join(context.folder, "bin/git"), '#!/bin/sh\necho "git $*"; env | grep ^GIT_CONFIG_; exit 128\n', {
    mode: 0o755,
  });
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

function run(folder: string, { url, secret }: { url: string; secret: string }) {
  const script = gitContextScript
    .replaceAll("/git/", `${folder}/git/`)
    .replaceAll("/context", `${folder}/context`)
    .replaceAll("HOME=/tmp", `HOME=${folder}/tmp`);
  const env = { PATH: `${folder}/bin:${process.env.PATH}` };
  const { status, stdout, stderr } = spawnSync("sh", ["-c", script, "context", url, "main", ".", secret], { env });
  return { status, said: `${stdout}${stderr}` };
}

function keep(folder: string, keys: Record<string, string>): void {
  for (const [key, value] of Object.entries(keys)) writeFileSync(join(folder, "git", key), value);
}

test("a Secret that is not there, or lacks a key, is named", ({ folder }) => {
  const url = "https://git.example/a/b";
  assert.equal(run(folder, { url, secret: "s" }), { status: 66, said: 'Secret "s" with the key token is not there\n' });
  keep(folder, { token: "t" });
  assert.equal(run(folder, { url, secret: "s" }), { status: 66, said: 'Secret "s" with the key host is not there\n' });
});

test("a token goes to the host that its Secret names, and to no other", ({ folder }) => {
  keep(folder, { token: "t", host: "git.example:8443" });
  for (const url of ["https://evil.example/a/b", "https://git.example/a", "https://git.example:84431/a"]) {
    const { status, said } = run(folder, { url, secret: "s" });
    assert.is(status, 66, url);
    assert.match(said, "is for another host");
    assert.not.match(said, "git init");
  }
  const { status, said } = run(folder, { url: "https://git.example:8443/a/b.git", secret: "s" });
  assert.is(status, 128);
  assert.match(said, "GIT_CONFIG_KEY_0=http.https://git.example:8443/a/b.git.extraHeader");
  assert.match(said, `Authorization: Basic ${Buffer.from("x-access-token:t").toString("base64")}`);
  assert.match(said, "GIT_CONFIG_VALUE_1=false");
});

test("a repository without a Secret is fetched without one, whatever is mounted", ({ folder }) => {
  keep(folder, { token: "t", host: "git.example" });
  const { status, said } = run(folder, { url: "https://git.example/a/b", secret: "" });
  assert.is(status, 128);
  assert.not.match(said, "Authorization");
});

test.run();
