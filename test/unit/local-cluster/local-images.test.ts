import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findInsideProgram } from "../../../scripts/cluster/images/inside-program.ts";
import { BUSYBOX_IMAGE, localImages, TOOLS_IMAGE } from "../../../scripts/cluster/images/local-images.ts";

const test = suite("localImages");

const busybox = [{ path: "bin" }, { path: "bin/busybox", content: Buffer.from("busybox"), mode: 0o755 }];
const inside = Buffer.from("inside");

function filesOf(name: string, options?: { inside: Buffer }) {
  return localImages(busybox, options).find((image) => image.name === name)?.files;
}

test("the tools image has busybox and inside, and the image of workloads busybox alone", () => {
  assert.equal(filesOf(TOOLS_IMAGE, { inside }), [...busybox, { path: "bin/inside", content: inside, mode: 0o755 }]);
  assert.equal(filesOf(BUSYBOX_IMAGE, { inside }), busybox);
});

test("the tools image is there without inside, which could not be built", () => {
  assert.equal(filesOf(TOOLS_IMAGE), busybox);
});

test("findInsideProgram logs why the program cannot be built", async () => {
  const folder = mkdtempSync(join(tmpdir(), "inside-program-test-"));
  const go = '#!/bin/sh\n[ "$1" = env ] && echo go1.26.0 && exit\necho disk full >&2\nexit 1\n';
  writeFileSync(join(folder, "go"), go, { mode: 0o755 });
  const lines: string[] = [];
  const environment = { XDG_CACHE_HOME: folder, PATH: `${folder}:${process.env.PATH}` };
  assert.is(await findInsideProgram((line) => lines.push(line), environment), undefined);
  assert.match(lines.at(-1) ?? "", /^the images do not contain the program inside: .*disk full/s);
  rmSync(folder, { recursive: true });
});

test.run();
