import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Trigger } from "../../../crds/trigger.ts";
import type { Delivery } from "../../../edge/api/deliveries.ts";
import { createDeliveryLog } from "../../../edge/gateway/delivery-log.ts";

const test = suite("delivery log");
const trigger = (uid: string) => ({ metadata: { name: "t", uid } }) as Trigger;
const delivery = (id: string, result: Delivery["result"] = "answered"): Delivery => ({ id, at: "", result, ms: 1 });
const ids = (deliveries: readonly Delivery[]) => deliveries.map(({ id }) => id);

test("the last fifty of a trigger are kept, the newest first", () => {
  const log = createDeliveryLog();
  assert.equal(log.read(trigger("a")), []);
  for (let count = 0; count < 60; count += 1) log.add(trigger("a"), delivery(`d${count}`));
  assert.equal(
    ids(log.read(trigger("a"))),
    Array.from({ length: 50 }, (_, index) => `d${59 - index}`),
  );
});

test("strangers push out strangers, not what a trigger's senders sent", () => {
  const log = createDeliveryLog();
  for (let count = 0; count < 45; count += 1) log.add(trigger("a"), delivery(`d${count}`));
  for (let count = 0; count < 500; count += 1)
    log.add(trigger("a"), delivery(`s${count}`, count % 2 ? "unsigned" : "rejected"));
  const kept = ids(log.read(trigger("a")));
  assert.equal(
    kept.slice(0, 10),
    Array.from({ length: 10 }, (_, index) => `s${499 - index}`),
  );
  assert.is(kept.filter((id) => id.startsWith("d")).length, 40);
});

test("a thousand are kept in all: a busy trigger does not push out what a quiet one got", () => {
  const log = createDeliveryLog();
  log.add(trigger("quiet"), delivery("q"));
  for (let of = 0; of < 40; of += 1)
    for (let count = 0; count < 50; count += 1) log.add(trigger(`busy${of}`), delivery(`${of}-${count}`));
  const uids = ["quiet", ...Array.from({ length: 40 }, (_, of) => `busy${of}`)];
  const sizes = uids.map((uid) => log.read(trigger(uid)).length);
  assert.is(
    sizes.reduce((total, size) => total + size, 0),
    1000,
  );
  assert.is(sizes[0], 1);
  assert.ok(sizes.every((size) => size > 0));
});

test("strangers of a thousand webhooks leave what one got", () => {
  const log = createDeliveryLog();
  for (let count = 0; count < 9; count += 1) log.add(trigger("a"), delivery(`d${count}`));
  for (let of = 0; of < 990; of += 1)
    for (let count = 0; count < 3; count += 1) log.add(trigger(`t${of}`), delivery("s", "unsigned"));
  assert.ok(log.read(trigger("a")).length >= 1);
});

test("a trigger that is made anew under its name has none of the old one's, and what is forgotten makes room", () => {
  const log = createDeliveryLog();
  log.add(trigger("old"), delivery("d"));
  assert.equal(log.read(trigger("new")), []);
  log.forget(trigger("old"));
  log.forget(trigger("never"));
  assert.equal(log.read(trigger("old")), []);
  for (let of = 0; of < 20; of += 1)
    for (let count = 0; count < 50; count += 1) log.add(trigger(`t${of}`), delivery("d"));
  assert.is(log.read(trigger("t0")).length, 50);
});

test.run();
