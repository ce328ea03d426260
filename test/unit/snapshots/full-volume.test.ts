import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { serveStore } from "./store-server.ts";

const isRoot = process.getuid?.() === 0;
const test = suite("a snapshots volume that is full");

// Only root can make a small disk.
(isRoot ? test : test.skip)("says what to enlarge", async () => {
  const root = mkdtempSync(join(tmpdir(), "tenancy-full-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", root]);
  // It finds the disk full only when it writes.
  const space = async () => ({ freeBytes: 2 ** 40, totalBytes: 2 ** 40 });
  const served = await serveStore(root, { space });
  async function* content() {
    for (let piece = 0; piece < 4; piece += 1) yield randomBytes(1024 * 1024);
  }
  try {
    const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
    const put = { ...call, mostBytes: 2 ** 30, confirm: async () => undefined };
    const error = await served.contexts.put("app", content(), put).catch((cause: unknown) => cause);
    assert.match(
      String(error),
      /the snapshots volume is full \(ENOSPC.*\): enlarge its volume claim tenancy-snapshots, or delete snapshots/,
    );
  } finally {
    await served.close();
    execFileSync("umount", [root]);
    rmSync(root, { recursive: true });
  }
});

test.run();
