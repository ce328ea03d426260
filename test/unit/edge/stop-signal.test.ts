// @runtimes bun
import { EventEmitter } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { stopSignal } from "../../../edge/serve/serve.ts";

const test = suite("stopSignal");

function fakeProcess(): EventEmitter & { exit(code: number): void; exits: number[] } {
  const exits: number[] = [];
  return Object.assign(new EventEmitter(), { exits, exit: (code: number) => void exits.push(code) });
}

for (const [first, second, code] of [
  ["SIGTERM", "SIGTERM", 143],
  ["SIGINT", "SIGINT", 130],
  ["SIGTERM", "SIGINT", 130],
] as const) {
  test(`resolves at ${first}, and ends the process with ${code} at ${second} after it`, async () => {
    const process = fakeProcess();
    const stop = stopSignal(process);
    process.emit(first);
    assert.is(await stop, first);
    assert.equal(process.exits, []);
    process.emit(second);
    assert.equal(process.exits, [code]);
  });
}

test.run();
