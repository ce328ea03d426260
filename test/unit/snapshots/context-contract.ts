import { createHash } from "node:crypto";
import type { Test } from "uvu";
import * as assert from "uvu/assert";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { call, pieces } from "./store-contract.ts";

interface ContextStore {
  readonly contexts: BuildContexts;
  /** What is there, as `<workload>/<name>`. */
  names(): Promise<string[]>;
}

export const digest = (content: string): string => createHash("sha256").update(content).digest("hex");

export function putContext(
  contexts: BuildContexts,
  content: string,
  { workload = "w", other }: { workload?: string; other?: string } = {},
): Promise<{ sha256: string; sizeBytes: number }> {
  return contexts.put(workload, pieces(content), { ...call, mostBytes: 100, confirm: async () => other });
}

export async function readContext(contexts: BuildContexts, content: string): Promise<string | undefined> {
  const opened = await contexts.open("w", digest(content), call);
  if (opened === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of opened.content) parts.push(part);
  assert.is(opened.sizeBytes, Buffer.concat(parts).length);
  return Buffer.concat(parts).toString("utf8");
}

/** What every store of build contexts keeps to. */
export function testContexts<T extends ContextStore>(test: Test<T>): void {
  test("keeps a context by its SHA-256, and nothing else", async ({ contexts, names }) => {
    assert.equal(await putContext(contexts, "the first"), { sha256: digest("the first"), sizeBytes: 9 });
    assert.is(await readContext(contexts, "the first"), "the first");
    assert.is(await readContext(contexts, "another"), undefined);
    assert.is(await contexts.open("w", "../x", call), undefined);
    assert.equal(await names(), [`w/${digest("the first")}`]);
    // No older one is deleted that may be named in a moment.
    await putContext(contexts, "the second");
    assert.is(await readContext(contexts, "the first"), "the first");
    await putContext(contexts, "the first");
    assert.is((await names()).length, 2);
  });

  test("a context that is not confirmed, is too large or was cut off is not kept", async ({ contexts, names }) => {
    const failing = { ...call, mostBytes: 100, confirm: () => Promise.reject(new Error("the workload is gone")) };
    assert.match(String(await errorOf(contexts.put("w", pieces("x"), failing))), /the workload is gone/);
    const large = await errorOf(putContext(contexts, "x".repeat(101)));
    assert.ok(large instanceof StoreError && !large.isTransient);
    async function* cut(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("the beginning");
      throw new Error("the client is gone");
    }
    const confirm = async () => undefined;
    const error = await errorOf(contexts.put("w", cut(), { ...call, mostBytes: 100, confirm }));
    assert.match(String(error), /client is gone/);
    // The store may see later than its client that a connection has ended.
    await eventually(async () => (await names()).length === 0);
  });

  test("deletes all of a workload, and of no other", async ({ contexts, names }) => {
    await putContext(contexts, "one");
    await putContext(contexts, "two");
    await putContext(contexts, "three", { workload: "w2" });
    await contexts.erase("w", call);
    assert.equal(await names(), [`w2/${digest("three")}`]);
    await contexts.erase("w", call);
  });

  test("takes no other names for workloads", async ({ contexts }) => {
    for (const workload of ["..", ".", "", "a/b", "-a", "a\n", "x".repeat(64)]) {
      for (const attempt of [
        () => putContext(contexts, "x", { workload }),
        () => contexts.open(workload, digest("x"), call),
        () => contexts.erase(workload, call),
      ]) {
        assert.match(String(await errorOf((async () => await attempt())())), /TypeError: Cannot keep a build context/);
      }
    }
  });
}
