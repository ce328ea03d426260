// @runtimes node bun
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { digest, putContext, readContext, testContexts } from "./context-contract.ts";
import { call, listAll, save } from "./store-contract.ts";
import { serveStore } from "./store-server.ts";
import { volumeSuite } from "./volume-suite.ts";

const test = volumeSuite<{ contexts: BuildContexts; names(): Promise<string[]> }>(
  "build contexts on the snapshots volume",
);

test.before.each((context) => {
  context.contexts = context.served.contexts;
  context.names = async () => namesIn(context.root);
});

function namesIn(root: string): string[] {
  const top = join(root, ".contexts");
  if (!existsSync(top)) return [];
  return readdirSync(top).flatMap((workload) => readdirSync(join(top, workload)).map((name) => `${workload}/${name}`));
}

testContexts(test);

test("what the version before has kept is there", async ({ root, contexts }) => {
  mkdirSync(join(root, ".contexts", "w"), { recursive: true });
  writeFileSync(join(root, ".contexts", "w", digest("of before")), "of before");
  assert.is(await readContext(contexts, "of before"), "of before");
});

test("one that is kept ends those that are a few minutes old, but the one that is named", async (context) => {
  const { root, contexts } = context;
  for (const content of ["one", "two", "three"]) {
    await putContext(contexts, content);
    const at = Date.now() / 1000 - 180;
    utimesSync(join(root, ".contexts", "w", digest(content)), at, at);
  }
  // Each has taken the one before it.
  assert.equal(namesIn(root), [`w/${digest("three")}`]);
  await putContext(contexts, "four", { other: digest("three") });
  assert.equal(namesIn(root).sort(), [`w/${digest("four")}`, `w/${digest("three")}`].sort());
});

test("two uploads at once know nothing of each other", async ({ contexts }) => {
  const isFirst = createDeferred<void>();
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("the ");
    await isFirst.promise;
    yield Buffer.from("slow");
  }
  const confirm = async () => undefined;
  const saving = contexts.put("w", slow(), { ...call, mostBytes: 100, confirm });
  await putContext(contexts, "the quick");
  isFirst.resolve();
  await saving;
  assert.equal(
    [await readContext(contexts, "the quick"), await readContext(contexts, "the slow")],
    ["the quick", "the slow"],
  );
});

test("an upload that is erased in the middle is not kept", async ({ contexts, root }) => {
  const confirm = async () => {
    await contexts.erase("w", call);
    return undefined;
  };
  const error = await errorOf(contexts.put("w", [Buffer.from("x")] as never, { ...call, mostBytes: 100, confirm }));
  assert.ok(error instanceof StoreError && error.isTransient, String(error));
  assert.equal(namesIn(root), []);
});

const MiB = 1024 * 1024;
for (const [what, freeMiB, askedMiB, isTaken] of [
  ["of which a tenth stays free", 117, undefined, true],
  ["of which a tenth does not stay free", 115, undefined, false],
  ["that was asked for with less than its disk has", 45, 280, true],
  ["that was asked for with more than its disk has", 117, 100_000, true],
] as const) {
  test(`a volume ${what} ${isTaken ? "takes" : "refuses"} a context`, async ({ folder }) => {
    const root = join(folder, "other");
    mkdirSync(root);
    const space = async () => ({ freeBytes: freeMiB * MiB, totalBytes: 1000 * MiB });
    const served = await serveStore(root, { space, volumeBytes: askedMiB === undefined ? undefined : askedMiB * MiB });
    try {
      const error = await errorOf(putContext(served.contexts, "x"));
      if (isTaken) assert.is(error, undefined);
      else assert.match(String(error), "the snapshots volume has no room for the build context");
      assert.is(namesIn(root).length, isTaken ? 1 : 0);
    } finally {
      await served.close();
    }
  });
}

test("a volume that fills meanwhile refuses the rest", async ({ folder }) => {
  const root = join(folder, "other");
  mkdirSync(root);
  let freeBytes = 900 * MiB;
  const served = await serveStore(root, { space: async () => ({ freeBytes, totalBytes: 1000 * MiB }) });
  async function* large(): AsyncGenerator<Uint8Array> {
    for (let sent = 0; sent < 40; sent += 1) {
      if (sent === 20) freeBytes = 0;
      yield Buffer.alloc(MiB);
    }
  }
  try {
    const confirm = async () => undefined;
    const error = await errorOf(served.contexts.put("w", large(), { ...call, mostBytes: 100 * MiB, confirm }));
    assert.match(String(error), "no room for the build context");
    await eventually(() => namesIn(root).length === 0);
  } finally {
    await served.close();
  }
});

test("are not archives: neither listed nor swept, until an upload is left behind for a day", async (context) => {
  const { root, contexts, served } = context;
  await putContext(contexts, "x");
  await save(served.store, "of a tenant");
  const left = join(root, ".contexts", "w", `.${"0".repeat(32)}.partial`);
  writeFileSync(left, "cut");
  await served.store.tidy(call);
  assert.ok(existsSync(left));
  const at = Date.now() / 1000 - 2 * 24 * 3600;
  utimesSync(left, at, at);
  await served.store.tidy(call);
  await eventually(() => !existsSync(left));
  assert.is((await listAll(served.store, { versions: true })).length, 1);
  assert.is(readFileSync(join(root, ".contexts", "w", digest("x")), "utf8"), "x");
});

test.run();
