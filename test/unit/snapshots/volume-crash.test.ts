// @waits
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { type SnapshotStore, StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { compose, fileOf, type Packed, pack } from "../archive/packed-archives.ts";
import { checkpoint } from "./checkpoint-contract.ts";
import { type HelperProcess, makeHelperProgram, startHelperProcess } from "./helper-process.ts";
import { call, key, loadBytes, save } from "./store-contract.ts";
import { saveTabled } from "./tabled-saves.ts";

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
  // Each is read whole: `loadBytes` fails where its bytes are not those of its digest.
  return await Promise.all(
    digests.map(async (sha256) => (await loadBytes(store, key, sha256))?.toString("latin1") ?? "(not there)"),
  );
}

function shown(contents: readonly string[]): string {
  return contents.map((content) => createHash("sha256").update(content, "latin1").digest("hex").slice(0, 8)).join(" ");
}

test("at whatever moment, the volume has what was there before the call or after it, whole", async (context) => {
  const bundle = await makeHelperProgram(context.folder);
  let server = await startHelperProcess(bundle, context);
  const contents = new Map(KEYS.map((key) => [key, [] as string[]]));
  const saves = createSaves();
  const outcomes = { before: 0, after: 0, answered: 0 };
  const hasMetBoth = () => outcomes.before > 0 && outcomes.answered + outcomes.after > 0;
  try {
    const begun = performance.now();
    for (const key of KEYS)
      await begin(server.store, { key, contents: [], save: await saves.next(undefined), minute: -1 }).outcome;
    const killDuring = createKills(performance.now() - begun);
    for (const key of KEYS) contents.set(key, await contentsOf(server.store, key));
    for (let kills = 0; kills < KILLS || (kills < MOST_KILLS && !hasMetBoth()); kills += 1) {
      const { store } = server;
      const next = await Promise.all(KEYS.map((key) => saves.next(contents.get(key)?.[0])));
      const calls = KEYS.map((key, index) =>
        begin(store, { key, contents: contents.get(key) ?? [], save: next[index] as NextSave, minute: kills }),
      );
      const ended = await killDuring(server, calls);
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

test("at whatever moment, a checkpoint leaves the newest archive, and its session one checkpoint, whole", async (context) => {
  const bundle = await makeHelperProgram(context.folder);
  let server = await startHelperProcess(bundle, context);
  const random = () => randomBytes(1 + Math.floor(Math.random() ** 3 * 1_000_000)).toString("latin1");
  const outcomes = { before: 0, after: 0, answered: 0 };
  const hasMetBoth = () => outcomes.before > 0 && outcomes.answered + outcomes.after > 0;
  const latin1 = (content: string): AsyncIterable<Uint8Array> => Readable.from([Buffer.from(content, "latin1")]);
  try {
    // One of the keys has only checkpoints.
    const [, ...saved] = KEYS;
    for (const key of saved) await save(server.store, latin1("the newest"), key);
    const contents = new Map(KEYS.map((key) => [key, random()]));
    const begun = performance.now();
    for (const [to, content] of contents) await checkpoint(server.store, latin1(content), { session: "a", to });
    const killDuring = createKills(performance.now() - begun);
    for (let kills = 0; kills < KILLS || (kills < MOST_KILLS && !hasMetBoth()); kills += 1) {
      const { store } = server;
      const calls = KEYS.map((to) => {
        const content = random();
        return { to, content, outcome: outcomeOf(checkpoint(store, latin1(content), { session: "a", to })) };
      });
      const ended = await killDuring(server, calls);
      server = await startHelperProcess(bundle, context);
      for (const { to, content, how } of ended) {
        const { newest } = await server.store.look(to, call);
        const found = await contentsOf(server.store, to);
        if (to !== KEYS[0]) assert.is(found.shift(), "the newest");
        assert.is(newest === undefined, to === KEYS[0]);
        const before = contents.get(to) ?? "";
        // Both, if the server was killed before it deleted the earlier one.
        const isBoth = how === "failed" && shown(found) === shown([content, before]);
        const isWhole = isBoth || shown(found) === shown([content]);
        assert.ok(isWhole || (how === "failed" && shown(found) === shown([before])), `${shown(found)} (${how})`);
        outcomes[how === "answered" ? "answered" : isWhole ? "after" : "before"] += 1;
        contents.set(to, isWhole ? content : before);
        if (found.length > 1) {
          // The next one replaces both.
          contents.set(to, "small");
          await checkpoint(server.store, latin1("small"), { session: "a", to });
          assert.is((await server.store.look(to, call)).versions.length, 1);
        }
      }
    }
    for (const to of KEYS) await server.store.dropCheckpoint(to, { ...call, session: "a" });
    for (const to of saved) await server.store.delete(to, call);
    assert.equal(
      readdirSync(context.root).filter((name) => !name.startsWith(".")),
      [],
    );
    assert.ok(hasMetBoth(), JSON.stringify(outcomes));
  } finally {
    await server.kill();
  }
});

type Outcome = "answered" | "failed";

function outcomeOf(act: Promise<unknown>): Promise<Outcome> {
  return act.then(
    () => "answered" as const,
    (error: unknown) => {
      // A commit that is asked for again meets another server, which knows nothing of the upload.
      assert.ok(error instanceof NetworkError || error instanceof StoreConflict, String(error));
      return "failed" as const;
    },
  );
}

/**
 * Makes what kills a server and says how the calls under way have ended. The moments are to be in the middle of the
 * calls, which take longer on a busy machine.
 *
 * @param tookMs what they took at first
 */
function createKills(tookMs: number) {
  let aboutMs = tookMs;
  return async <T extends { readonly outcome: Promise<Outcome> }>(
    server: HelperProcess,
    calls: readonly T[],
  ): Promise<(T & { how: Outcome })[]> => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 1.5 * aboutMs));
    await server.kill();
    const ended = await Promise.all(calls.map(async (one) => ({ ...one, how: await one.outcome })));
    const answered = ended.filter(({ how }) => how === "answered").length;
    if (answered === 0) aboutMs = Math.min(10_000, aboutMs * 1.3);
    if (answered === calls.length) aboutMs = Math.max(5, aboutMs * 0.7);
    return ended;
  };
}

interface Begun {
  readonly key: SnapshotKey;
  readonly isDeletion: boolean;
  /** What was there, the newest first. */
  readonly before: readonly string[];
  readonly content: string;
  readonly outcome: Promise<Outcome>;
}

interface NextSave extends Pick<Parameters<typeof saveTabled>[1], "archive" | "onto"> {
  /** The archive that is there once it is done. */
  readonly content: string;
}

/** Makes the next save of a key: of all files, or of a change of what is there. */
function createSaves(): { next(present: string | undefined): Promise<NextSave> } {
  const known = new Map<string, Packed>();
  return {
    async next(present) {
      const archive = await pack(
        Array.from({ length: 1 + Math.floor(Math.random() * 5) }, (_, index) =>
          fileOf(`data/${known.size}-${index}`, randomBytes(Math.floor(Math.random() ** 3 * 1_000_000))),
        ),
      );
      const base = known.get(present ?? "");
      const sha256 = createHash("sha256")
        .update(present ?? "", "latin1")
        .digest("hex");
      const onto = base && Math.random() < 0.5 ? { base: sha256, kept: new Set([0, 2]) } : undefined;
      const whole = base && onto ? await compose(base, onto.kept, archive) : archive;
      const content = whole.archive.toString("latin1");
      known.set(content, whole);
      return { archive, onto, content };
    },
  };
}

/** Saves or deletes, without waiting for it. */
function begin(
  store: SnapshotStore,
  { key, contents, save, minute }: { key: SnapshotKey; contents: readonly string[]; save: NextSave; minute: number },
): Begun {
  const { content } = save;
  const createdAt = new Date(Date.UTC(2026, 0, 1) + minute * 60_000).toISOString();
  const isDeletion = contents.length > 0 && Math.random() < 0.2;
  const act = isDeletion ? store.delete(key, call) : saveTabled(store, { ...save, to: key, createdAt });
  return { key, isDeletion, before: contents, content, outcome: outcomeOf(act) };
}

function isPossible(
  found: readonly string[],
  { isDeletion, before, content, how }: Omit<Begun, "outcome"> & { how: Outcome },
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
