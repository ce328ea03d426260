// @runtimes node
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { ContextGoneError, eraseStoredContexts, readStoredContext } from "../../../operator/builds/stored-context.ts";
import { localExec, untilCommandsEnd } from "../snapshots/local-exec.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";

interface Store {
  root: string;
  exec: Exec;
}

const test = suite<Store>("uploaded build contexts");
const signal = new AbortController().signal;

test.before.each((store) => {
  const root = mkdtempSync(join(tmpdir(), "tenancy-contexts-"));
  store.root = root;
  const places = new Map([
    ["/bin/busybox", staticBusybox],
    ["/snapshots", root],
  ]);
  store.exec = (options) => localExec({ ...options, command: options.command.map((word) => places.get(word) ?? word) });
});
test.after.each(async ({ root }) => {
  await untilCommandsEnd();
  rmSync(root, { recursive: true, force: true });
});

function keep(root: string, content: Buffer): string {
  const sha256 = createHash("sha256").update(content).digest("hex");
  mkdirSync(join(root, ".contexts/w"), { recursive: true });
  writeFileSync(join(root, ".contexts/w", sha256), content);
  return sha256;
}

const read = ({ exec }: Store, sha256: string) =>
  readStoredContext({ exec, namespace: "n", workload: "w" }, { sha256, signal, timeoutMs: 30_000 });

test("readStoredContext: its bytes, to the last", async (store) => {
  const content = randomBytes(3 * 1024 * 1024 + 1);
  const sha256 = keep(store.root, content);
  const chunks: Uint8Array[] = [];
  for await (const chunk of read(store, sha256)) chunks.push(chunk);
  assert.ok(Buffer.concat(chunks).equals(content));
});

test("readStoredContext: one that is not there is an error of its own", async (store) => {
  keep(store.root, Buffer.from("another"));
  let thrown: unknown;
  try {
    for await (const chunk of read(store, "0".repeat(64))) assert.unreachable(String(chunk));
  } catch (error) {
    thrown = error;
  }
  assert.instance(thrown, ContextGoneError);
});

test("readStoredContext: the command ends when nobody reads on", async (store) => {
  const sha256 = keep(store.root, randomBytes(3 * 1024 * 1024));
  for await (const chunk of read(store, sha256)) {
    assert.ok(chunk.length > 0);
    break;
  }
  await untilCommandsEnd();
});

test("eraseStoredContexts: all of the workload, and no other's; also where there is none", async ({ root, exec }) => {
  keep(root, Buffer.from("a"));
  mkdirSync(join(root, ".contexts/other"), { recursive: true });
  for (const _ of [1, 2]) await eraseStoredContexts({ exec, namespace: "n", workload: "w" }, signal);
  assert.not.ok(existsSync(join(root, ".contexts/w")));
  assert.ok(existsSync(join(root, ".contexts/other")));
});

test.run();
