import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { commitProblems } from "../../../scripts/lint/commit-messages.ts";

test("commitProblems looks at the commits alone that the upstream branch does not have", () => {
  const root = mkdtempSync(join(tmpdir(), "commits-"));
  const who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"];
  const git = (...words: string[]) => execFileSync("git", [...who, ...words], { cwd: root, stdio: "ignore" });
  const commit = (...message: string[]) =>
    git("commit", "--allow-empty", "--quiet", ...message.flatMap((part) => ["-m", part]));
  try {
    assert.equal(commitProblems(root), [], "no repository");
    git("init", "--quiet", "--initial-branch=work");
    commit("Before");
    assert.equal(commitProblems(root), [], "no upstream branch");
    git("branch", "main");
    git("branch", "--set-upstream-to=main");
    commit("x".repeat(72), "Why.");
    assert.equal(commitProblems(root), []);
    commit("x".repeat(73), "Why.\n\nMore.");
    commit("No body");
    const [first, second, ...more] = commitProblems(root);
    assert.match(first ?? "", /"No body": there is no body/);
    assert.match(second ?? "", /more than 72 characters/);
    assert.equal(more, []);
  } finally {
    rmSync(root, { recursive: true });
  }
});

test.run();
