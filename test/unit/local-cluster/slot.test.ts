import { test } from "uvu";
import * as assert from "uvu/assert";
import { chooseSlot, SLOTS, type Slot, slotOf } from "../../../scripts/cluster/slot.ts";

const free = async (): Promise<boolean> => true;

test("slotOf gives no port, bridge or network to two slots", () => {
  const seen = new Set<string | number>();
  for (let number = 0; number < SLOTS; number += 1) {
    const { ports, bridge, queue, podNetwork } = slotOf(number);
    for (const value of [...Object.values(ports), bridge, `queue ${queue}`, podNetwork]) {
      assert.not.ok(seen.has(value), `${value} comes twice`);
      seen.add(value);
    }
  }
});

test("slotOf stays below the ports of outgoing connections and within the length of a link's name", () => {
  for (const number of [0, SLOTS - 1]) {
    const { ports, bridge, address } = slotOf(number);
    assert.ok(Object.values(ports).every((port) => port >= 20_000 && port < 23_000));
    assert.ok(bridge.length <= 15);
    assert.match(address, /^10\.231\.\d{1,3}\.1$/);
  }
});

test("chooseSlot gives a name the same slot every time", async () => {
  const first = await chooseSlot("tenancy", free);
  const second = await chooseSlot("tenancy", free);
  assert.is(first.number, second.number);
});

test("chooseSlot keeps clusters apart whose names hash to the same slot, until all slots are taken", async () => {
  const taken = new Set<number>();
  const isFree = async ({ number }: Slot): Promise<boolean> => !taken.has(number);
  for (let index = 0; index < SLOTS; index += 1) {
    const { number } = await chooseSlot(`cluster-${index % 7}`, isFree);
    assert.not.ok(taken.has(number));
    taken.add(number);
  }
  await chooseSlot("one-too-many", isFree).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /all 250 are taken/),
  );
});

test.run();
