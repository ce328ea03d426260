import { linkSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { PageFilter, StorePage } from "../../../crds/snapshots/store-pages.ts";
import { renderSnapshotsPod } from "../../../operator/snapshots/helper-pod.ts";
import { memoryFolder } from "../../../scripts/test/memory-folder.ts";
import { type HelperProcess, makeHelperProgram, startHelperProcess } from "./helper-process.ts";
import { call } from "./store-contract.ts";

const SHA256 = "ab".repeat(32);
/** Of one file: ext4 has at most 65 000. */
const MOST_LINKS = 50_000;
const patient = { ...call, timeoutMs: 900_000 };

/** What the helper pod's container limits its program's heap with, in MiB. */
export function helperHeapMiB(): number {
  const { spec } = renderSnapshotsPod({ namespace: "n", program: { image: "i" }, logLevel: "warn" });
  const options = spec.containers[0]?.env?.find(({ name }) => name === "NODE_OPTIONS")?.value ?? "";
  return Number(/^--max-old-space-size=(\d+)$/.exec(options)?.[1]);
}

/** In memory, where that has room for so many folders with two files each. */
function folderFor(count: number): string {
  const inMemory = memoryFolder();
  return inMemory !== undefined && statfsSync(inMemory).ffree > 3 * count ? inMemory : tmpdir();
}

/**
 * Archives of so many tenants, which are a few files under many names.
 *
 * @param options.recorded whether each has a record of its own, which takes a block
 */
function makeArchives(root: string, { count, recorded }: { count: number; recorded: boolean }): void {
  const metadata = (tenantId: string) =>
    JSON.stringify({
      ...{ sha256: SHA256, sizeBytes: 10, tenantId, workloadRef: "app", uid: 1, gid: 1 },
      ...{ createdAt: "2026-11-21T12:00:00.000Z", entries: 1, contentBytes: 10, overlayDirs: ["/data"] },
    });
  let archive = "";
  for (let index = 0; index < count; index += 1) {
    if (index % MOST_LINKS === 0) {
      archive = join(root, "..", `archive-${index}`);
      writeFileSync(archive, "an archive");
    }
    const tenantId = `tenant-${index}`;
    mkdirSync(join(root, tenantId));
    const path = join(root, tenantId, "app.tar.gz");
    if (recorded) writeFileSync(`${path}.${SHA256.slice(0, 16)}.json`, metadata(tenantId));
    linkSync(archive, path);
  }
}

/** @param options.count of tenants with an archive each */
export function testManyArchives({
  count,
  recorded,
  heapMiB,
}: {
  count: number;
  recorded: boolean;
  heapMiB: number;
}): void {
  test(`the helper pod's program lists, names, counts and tidies ${count} archives in a heap of ${heapMiB} MiB`, async () => {
    const folder = mkdtempSync(join(folderFor(count), "tenancy-many-"));
    const root = join(folder, "volume");
    mkdirSync(root);
    let helper: HelperProcess | undefined;
    try {
      const program = await makeHelperProgram(folder);
      makeArchives(root, { count, recorded });
      const NODE_OPTIONS = `--max-old-space-size=${heapMiB}`;
      helper = await startHelperProcess(program, { folder, root, env: { NODE_OPTIONS } });
      const { store, connection } = helper;
      await all("list", (page) => store.list({ ...page, versions: true }, patient));
      await all("names", (page) => store.names(page, patient));
      assert.equal(await store.usage(patient), {
        ...{ archives: count, bytes: count * 10 },
        workloads: { app: { archives: count, bytes: count * 10 } },
      });
      await store.tidy(patient);
      assert.is((await store.list({ tenantId: "tenant-7", versions: true, limit: 10 }, call)).items.length, 1);
      // A client of an earlier version names no limit.
      const { lines } = await connection.askLines({ method: "GET", path: "/v1/names", signal: call.signal });
      assert.is(lines.length, count);
    } finally {
      await helper?.kill();
      rmSync(folder, { recursive: true, maxRetries: 20 });
    }
  });

  async function all(what: string, read: (page: PageFilter) => Promise<StorePage<SnapshotKey>>): Promise<void> {
    const took: number[] = [];
    let [seen, last] = [0, ""];
    let after: SnapshotKey | undefined;
    do {
      const began = performance.now();
      const { items, next } = await read({ after, limit: 500 });
      took.push(performance.now() - began);
      for (const { tenantId } of items) {
        assert.ok(`${tenantId}/` > last, `${tenantId} comes after ${last}`);
        last = `${tenantId}/`;
      }
      seen += items.length;
      after = next;
    } while (after !== undefined);
    assert.is(seen, count, what);
    took.sort((a, b) => a - b);
    const [median, slowest] = [took[took.length >> 1] ?? 0, took.at(-1) ?? 0];
    console.log(
      `note: ${what}: a page of 500 of ${count} in ${median.toFixed(0)} ms, at most ${slowest.toFixed(0)} ms`,
    );
  }
}
