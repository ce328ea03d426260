// @limit 900
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import { checkArchive } from "../archive/check-archive.ts";
import { type RawEntry, rawTar } from "../archive/raw-tar.ts";
import { changeLines, changes, createPlace, lostFiles, makeRandomTree, trees, walk } from "./saved-trees.ts";
import { treeLines } from "./tree.ts";

const RUNS = Number(process.env.TENANCY_MODEL_SEQUENCES ?? 100);
// A change must not pass or fail by chance: other trees are made by saved-trees-long.
const options = { seed: Number(process.env.TENANCY_MODEL_SEED ?? 1), endOnFailure: true };
const limits = archiveLimits({ diskGb: 1 });

const test = suite<{ place: ReturnType<typeof createPlace> }>("saved trees");
test.before.each((context) => {
  context.place = createPlace();
});
test.after.each(({ place }) => place.remove());

test("a tree that stands still is restored as it was, or is over a limit and not saved", async ({ place }) => {
  const tight = fc.option(fc.integer({ min: 500, max: 400_000 }), { freq: 5 });
  await fc.assert(
    fc.asyncProperty(trees, tight, async (nodes, bytes) => {
      const from = place.fresh("from");
      makeRandomTree(from, nodes);
      const given = bytes === null ? limits : { ...limits, maxContentBytes: bytes, maxRememberedBytes: bytes };
      const error = await place.save(from, { limits: given, steps: [] }).catch((cause: Error) => cause);
      if (error !== undefined && bytes !== null) {
        assert.match(String(error), /^ArchiveError: (its files have more than|the names of its)/);
        return;
      }
      assert.is(error, undefined, String(error));
      const to = place.fresh("to");
      await place.restore(to, given);
      assert.equal(treeLines(`${to}/data`), treeLines(`${from}/data`));
      const read = place.fresh("read");
      place.unpack(read);
      assert.equal(treeLines(`${read}/data`), treeLines(`${to}/data`));
    }),
    { ...options, numRuns: Math.ceil(RUNS / 2) },
  );
});

test("what is there before and after a save is restored, whatever the program does, or the save fails", async ({
  place,
}) => {
  let saved = 0;
  const why = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(trees, changes, async (nodes, given) => {
      const from = place.fresh("from");
      const paths = makeRandomTree(from, nodes);
      const before = walk(from);
      // Before the first program of a save all changes are of another tree.
      const steps = given.map((changed, index) => changeLines(paths, index === 0 ? [] : changed));
      const error = await place.save(from, { limits, steps }).catch((cause: Error) => cause);
      if (error !== undefined) {
        assert.match(String(error), /^(ExecFailure: Cannot save the overlay directories: .|ArchiveError: .)/s);
        const known = /they changed while|Permission denied|short read|twice|lies below|was not there/;
        const kind = known.exec(String(error))?.[0] ?? String(error).slice(0, 200);
        why.set(kind, (why.get(kind) ?? 0) + 1);
        return;
      }
      saved += 1;
      const after = walk(from);
      const to = place.fresh("to");
      await place.restore(to, limits);
      assert.equal(lostFiles({ before, after, restored: walk(to), isListed: place.isListed() }), []);
    }),
    { ...options, numRuns: RUNS },
  );
  console.log(`note: ${saved} of ${RUNS} saves were good; failed: ${JSON.stringify(Object.fromEntries(why))}`);
  assert.ok(saved > RUNS / 2, `${saved} of ${RUNS} saves were good`);
});

const part = fc.constantFrom("a", "b", "c");
const path = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => `data/${parts.join("/")}`);
const entry: fc.Arbitrary<RawEntry> = fc.record({
  name: path,
  type: fc.constantFrom("0", "0", "1", "2", "5", "5"),
  target: path,
  mode: fc.constantFrom(0o644, 0o755, 0o4755, 0o500),
});

test("an archive that the check takes can be restored, and is read as others read it", async ({ place }) => {
  let taken = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(entry, { maxLength: 8 }), async (entries) => {
      const archive = rawTar(
        entries.map(({ target, ...fields }, index) => ({
          ...{ ...fields, target: fields.type === "1" || fields.type === "2" ? target : "" },
          content: fields.type === "0" ? Buffer.from(`${index}`) : undefined,
        })),
      );
      const good = await checkArchive(archive, { roots: ["data"], limits }).catch(() => undefined);
      if (good === undefined) return;
      taken += 1;
      place.put(gzipSync(good));
      const to = place.fresh("to");
      await place.restore(to, limits);
      const read = place.fresh("read");
      place.unpack(read);
      assert.equal([...walk(to)].sort(), [...walk(read)].sort());
    }),
    { ...options, numRuns: RUNS },
  );
  assert.ok(taken > RUNS / 5, `${taken} of ${RUNS} archives were taken`);
});

test.run();
