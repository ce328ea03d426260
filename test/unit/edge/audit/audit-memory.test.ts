import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createAuditMemory } from "../../../../edge/audit/audit-memory.ts";

const test = suite("memory of the audit log");

test("an actor with many records displaces its own, and never what another did before", () => {
  let now = 1000;
  const memory = createAuditMemory({ now: () => now, maxLines: 100 });
  memory.add("quiet 1", "key quiet");
  now = 2000;
  assert.is(memory.completeSince(), 1000);
  for (let at = 0; at < 5000; at += 1) memory.add(`loud ${at}`, "key loud");
  now = 3000;
  memory.add("quiet 2", "key quiet");
  const lines = memory.newest().map(({ line }) => line);
  assert.is(lines.length, 100);
  assert.equal([lines[0], lines[1], lines.at(-1)], ["quiet 2", "loud 4999", "quiet 1"]);
  assert.is(memory.completeSince(), 2000);
});

test("long lines are bounded by their bytes, and pages follow the ids", () => {
  const memory = createAuditMemory({ now: () => 0, maxBytes: 1000 });
  for (let at = 0; at < 50; at += 1) memory.add("x".repeat(100), `key ${at % 3}`);
  const all = memory.newest();
  assert.is(all.length, 10);
  const ids = all.map(({ id }) => id);
  assert.equal(
    ids,
    [...ids].sort((a, b) => b - a),
  );
  assert.equal(memory.newest(ids[4]), all.slice(5));
});

test("which actors share a place differs from process to process, so that no id can be chosen to displace another's", () => {
  /** The ids that share with the victim: a long line of theirs displaces the one of the victim, and not itself. */
  function sharing(): number[] {
    const memory = createAuditMemory({ now: () => 0, maxLines: 1 });
    memory.add("mine", "person victim");
    return Array.from({ length: 4000 }, (_, id) => id).filter((id) => {
      memory.add("a longer line", `person ${id}`);
      const isDisplaced = memory.newest()[0]?.line !== "mine";
      if (isDisplaced) memory.add("mine", "person victim");
      return isDisplaced;
    });
  }
  const [first, second] = [sharing(), sharing()];
  assert.ok(first.length > 0 && first.length < 100, `${first.length}`);
  assert.not.equal(first, second);
});

test.run();
