// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMembers } from "../../../edge/proxy/members.ts";

const test = suite("createMembers");

test("holds what was added and not taken out, in whatever order it goes", () => {
  const members = createMembers<number>();
  const held = new Map<number, () => boolean>();
  let random = 1;
  for (let count = 0; count < 2000; count += 1) {
    random = (random * 48_271) % 2_147_483_647;
    const [member, leave] = [...held][random % (held.size + 1)] ?? [];
    if (leave === undefined || member === undefined || random % 7 < 4) held.set(count, members.add(count));
    else {
      assert.is(leave(), true);
      assert.is(leave(), false);
      held.delete(member);
    }
    assert.is(members.size, held.size);
    assert.equal(members.all().sort(), [...held.keys()].sort());
  }
  assert.ok(held.size > 10);
});

test.run();
