// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { isImageReference } from "../../../crds/schema/image-reference.ts";

const digest = `sha256:${"ab".repeat(32)}`;

test("isImageReference: takes what registries serve", () => {
  const legal = [
    "busybox",
    "localhost/busybox:1",
    "library/nginx:1.27-alpine",
    "docker.io/library/nginx",
    "ghcr.io/acme/agent__x/y-z.w:V1_2",
    "10.0.0.1:5000/a",
    "[fd00::1]:5000/a:b",
    `a@${digest}`,
    `Registry.Example/a:1@${digest}`,
    "a--b/c",
  ];
  for (const text of legal) assert.ok(isImageReference(text), text);
});

test("isImageReference: refuses the rest", () => {
  const illegal = ["", "A", "a b", "a/", "/a", "a:", "a:b:c", "a@sha256:12", "https://a/b", "a..b", "a\n", "-a", "é"];
  for (const text of [...illegal, "a".repeat(513), `a:${"b".repeat(129)}`]) assert.not.ok(isImageReference(text), text);
});

test("isImageReference: answers at once whatever the text", () => {
  // Time of this process alone: what the rest of the machine does is not its fault.
  const start = process.cpuUsage();
  for (const piece of ["a", "a.", "a-", "a_", "a/", "-", "1:", "A1."]) {
    isImageReference(`${piece.repeat(512 / piece.length - 1)}!`);
  }
  const { user } = process.cpuUsage(start);
  assert.ok(user < 500_000, `${user} µs`);
});

test.run();
