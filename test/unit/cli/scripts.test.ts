// What is made of the table of commands: the page, and the scripts for shells.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { commands } from "../../../edge/cli/commands.ts";
import { completionScript, SHELLS } from "../../../edge/cli/completion.ts";
import { cliPage } from "../../../scripts/docs/cli-page.ts";

const test = suite("scripts and page of tenancy");

test("docs/reference/cli.md is what npm run docs writes", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/cli.md"), "utf8");
  assert.ok(page === cliPage(commands), "run npm run docs");
});

test("each shell that is here accepts its completion script", () => {
  for (const shell of SHELLS) {
    const { error, status, stderr } = spawnSync(shell, ["-n"], {
      input: completionScript(shell, commands),
      encoding: "utf8",
    });
    if (error !== undefined && shell !== "bash") continue;
    assert.equal([status, stderr], [0, ""], shell);
  }
});

function completed(...words: string[]): string[] {
  const script = `${completionScript("bash", commands)}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tenancy; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = spawnSync("bash", ["-c", script, "bash", "tenancy", ...words], { encoding: "utf8" });
  return stdout.split("\n").filter(Boolean);
}

test("bash completes commands, those of a group, and options", () => {
  assert.equal(completed("rel"), ["release"]);
  assert.equal(completed("fil"), ["files"]);
  assert.equal(completed("files", "wa"), ["watch"]);
  assert.equal(completed("exec", "a/b", "--det"), ["--detach"]);
  assert.equal(completed("files", "rm", "--rec"), ["--recursive"]);
  assert.equal(completed("cp", "fi"), []);
});

test.run();
