// @waits
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { type SnapshotStore, StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { makeHelperProgram, startHelperProcess } from "./helper-process.ts";
import { call, key, load, save } from "./store-contract.ts";

const KILLS = 12;
/** As many until calls were met before and after what they do. */
const MOST_KILLS = 100;
/** Each has a call under way at each kill. */
const KEYS = ["a", "b", "c", "d"].map((tenantId) => ({ ...key, tenantId }));

const test = suite<{ folder: string; root: string }>("the snapshots server, killed");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-crash-"));
  context.root = join(context.folder, "volume");
  mkdirSync(context.root);
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, maxRetries: 20 }));

/** What is there: the newest archive first, then older versions. */
async function contentsOf(store: SnapshotStore, key: SnapshotKey): Promise<string[]> {
  const { newest, versions, state } = await store.look(key, call);
  assert.ok(["kept", "none", "unmarked"].includes(state), state);
  const digests = [newest, ...versions].flatMap((one) => (one === undefined ? [] : [one.sha256]));
  // Each is read whole: `load` fails where its bytes are not those of its digest.
  return await Promise.all(digests.map(async (sha256) => (await load(store, key, sha256)) ?? "(not there)"));
}

function shown(contents: readonly string[]): string {
  return contents.map((content) => createHash("sha256").update(content).digest("hex").slice(0, 8)).join(" ");
}

test("at whatever moment, the volume has what was there before the call or after it, whole", async (context) => {
  const bundle = await makeHelperProgram(context.folder);
  let server = await startHelperProcess(bundle, context);
  const contents = new Map(KEYS.map((key) => [key, [] as string[]]));
  const outcomes = { before: 0, after: 0, answered: 0 };
  const hasMetBoth = () => outcomes.before > 0 && outcomes.answered + outcomes.after > 0;
  try {
    const begun = performance.now();
    await Promise.all(KEYS.map((key) => begin(server.store, { key, contents: [], minute: -1 }).outcome));
    // The moments are to be in the middle of the calls, which take longer on a busy machine.
    let tookMs = performance.now() - begun;
    for (const key of KEYS) contents.set(key, await contentsOf(server.store, key));
    for (let kills = 0; kills < KILLS || (kills < MOST_KILLS && !hasMetBoth()); kills += 1) {
      const { store } = server;
      const calls = KEYS.map((key) => begin(store, { key, contents: contents.get(key) ?? [], minute: kills }));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 1.5 * tookMs));
      await server.kill();
      const ended = await Promise.all(calls.map(async (one) => ({ ...one, how: await one.outcome })));
      const answered = ended.filter(({ how }) => how === "answered").length;
      if (answered === 0) tookMs = Math.min(10_000, tookMs * 1.3);
      if (answered === KEYS.length) tookMs = Math.max(5, tookMs * 0.7);
      server = await startHelperProcess(bundle, context);
      for (const { how, ...one } of ended) {
        const found = await contentsOf(server.store, one.key);
        assert.ok(isPossible(found, { ...one, how }), `${shown(found)} after ${shown(one.before)} (${how})`);
        outcomes[how === "answered" ? "answered" : shown(one.before) === shown(found) ? "before" : "after"] += 1;
        contents.set(one.key, found);
      }
    }
    for (const key of KEYS) {
      await server.store.delete(key, call);
      await save(server.store, "the last", key);
      const names = readdirSync(join(context.root, key.tenantId));
      assert.is(names.length, 2, `left behind: ${names.join(" ")}`);
    }
    assert.ok(hasMetBoth(), JSON.stringify(outcomes));
  } finally {
    await server.kill();
  }
});

interface Begun {
  readonly key: SnapshotKey;
  readonly isDeletion: boolean;
  /** What was there, the newest first. */
  readonly before: readonly string[];
  readonly content: string;
  readonly outcome: Promise<"answered" | "failed">;
}

/** Saves or deletes, without waiting for it. */
function begin(
  store: SnapshotStore,
  { key, contents, minute }: { key: SnapshotKey; contents: readonly string[]; minute: number },
): Begun {
  const content = randomBytes(1 + Math.floor(Math.random() ** 3 * 2_000_000)).toString("latin1");
  const createdAt = new Date(Date.UTC(2026, 0, 1) + minute * 60_000).toISOString();
  const isDeletion = contents.length > 0 && Math.random() < 0.2;
  const act = isDeletion ? store.delete(key, call) : save(store, content, key, { keep: "replaced", createdAt });
  const outcome = act.then(
    () => "answered" as const,
    (error: unknown) => {
      // A commit that is asked for again meets another server, which knows nothing of the upload.
      assert.ok(error instanceof NetworkError || error instanceof StoreConflict, String(error));
      return "failed" as const;
    },
  );
  return { key, isDeletion, before: contents, content, outcome };
}

function isPossible(
  found: readonly string[],
  { isDeletion, before, content, how }: Omit<Begun, "outcome"> & { how: "answered" | "failed" },
): boolean {
  const isSame = (one: readonly string[]): boolean => shown(one) === shown(found);
  // A save that was ended in the middle can have kept what is still the newest.
  const unpruned = [content, ...new Set(before)];
  const after = isDeletion ? [] : unpruned.slice(0, 4);
  if (isSame(after)) return true;
  if (how === "answered") return false;
  if (isSame(before)) return true;
  // Of a deletion that was ended in the middle the newest archive can be there without older versions.
  if (isDeletion && found[0] === before[0] && found.every((one) => before.includes(one))) return true;
  // A save can have kept what it was about to replace, or what goes with the next one.
  if (isSame([...before.slice(0, 1), ...before])) return true;
  return !isDeletion && found.length >= after.length && isSame(unpruned.slice(0, found.length));
}

test.run();
