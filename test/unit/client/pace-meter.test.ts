// @runtimes bun node
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createPaceMeter } from "../../../crds/client/exec/pace-meter.ts";

function metered() {
  let time = 0;
  const meter = createPaceMeter({ bytesPerSecond: 1000, overMs: 60_000 }, () => time);
  /** Asks once a second, as a byte or more come each second. */
  function pass(seconds: number, bytesPerSecond: number): boolean {
    for (let second = 0; second < seconds; second += 1) {
      time += 1000;
      meter.count(bytesPerSecond);
      if (meter.isSlow()) return true;
    }
    return false;
  }
  return { meter, pass };
}

test("createPaceMeter finds an end slow that sends a byte a second, after its time and not before", () => {
  const { meter, pass } = metered();
  meter.begin();
  assert.is(pass(59, 1), false);
  assert.is(pass(1, 1), true);
});

test("createPaceMeter finds an end slow that was fast before", () => {
  const { meter, pass } = metered();
  meter.begin();
  assert.is(pass(600, 1_000_000), false);
  assert.is(pass(120, 999), true);
});

test("createPaceMeter finds no end slow that keeps up, or rests for less than its time", () => {
  const { meter, pass } = metered();
  meter.begin();
  assert.is(pass(600, 1000), false);
  for (let count = 0; count < 10; count += 1) assert.is(pass(30, 0) || pass(30, 2000), false);
});

test("createPaceMeter does not count the time in which the end is kept waiting", () => {
  const { meter, pass } = metered();
  for (let count = 0; count < 100; count += 1) {
    meter.begin();
    assert.is(pass(1, 1000), false);
    meter.end();
    assert.is(pass(3600, 0), false);
  }
});

test("createPaceMeter finds nothing slow without a pace", () => {
  let time = 0;
  const meter = createPaceMeter(undefined, () => time);
  meter.begin();
  time = 86_400_000;
  assert.is(meter.isSlow(), false);
});

test.run();
