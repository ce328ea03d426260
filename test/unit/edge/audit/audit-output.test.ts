// @runtimes bun node deno
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../../crds/client/clock.ts";
import { type AuditOutput, openAuditOutput } from "../../../../edge/audit/audit-output.ts";
import { eventually } from "../../../eventually.ts";
import { manualClock } from "../../manual-clock.ts";

const test = suite("output of the audit log");
let folder: string;
let lost = 0;
let failures = 0;
const logged: string[] = [];
const note = (_: object, message: string): void => void logged.push(message);
const options = {
  log: { debug: note, info: note, warn: note, error: note },
  clock: systemClock,
  onLost() {
    lost += 1;
  },
  onFailure() {
    failures += 1;
  },
};

test.before.each(() => {
  folder = mkdtempSync(join(tmpdir(), "tenancy-audit-"));
  [lost, failures, logged.length] = [0, 0, 0];
});
test.after.each(() => rmSync(folder, { recursive: true }));

function linesOf(path: string): string[] {
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
}

async function written(output: AuditOutput, line: string, path: string): Promise<void> {
  output.write(line);
  await eventually(() => linesOf(path).includes(line));
}

test("lines are appended in their order, by the owner alone", async () => {
  const path = join(folder, "audit.jsonl");
  for (const start of [0, 500]) {
    const output = openAuditOutput(path, options);
    for (let at = start; at < start + 500; at += 1) output.write(`line ${at} ${"x".repeat(300)}`);
    await output.close();
  }
  const lines = linesOf(path);
  assert.equal(
    lines.map((line) => line.split(" ")[1]),
    Array.from({ length: 1000 }, (_, at) => `${at}`),
  );
  assert.is(statSync(path).mode & 0o777, 0o600);
  assert.equal([lost, failures], [0, 0]);
});

test("a renamed or removed file is left, and the path opened again", async () => {
  const clock = manualClock();
  const path = join(folder, "audit.jsonl");
  const output = openAuditOutput(path, { ...options, clock });
  await written(output, "one", path);
  renameSync(path, `${path}.1`);
  clock.set(clock.now() + 2000);
  output.write("two");
  await eventually(() => statSync(path, { throwIfNoEntry: false })?.size === 4);
  rmSync(path);
  clock.set(clock.now() + 2000);
  output.write("three");
  await output.close();
  assert.equal([linesOf(`${path}.1`), linesOf(path)], [["one"], ["three"]]);
});

test("a full disk loses no line that fits into the buffer, is logged once, and ends", async () => {
  const path = join(folder, "audit.jsonl");
  symlinkSync("/dev/full", path);
  const clock = manualClock();
  const output = openAuditOutput(path, { ...options, clock, maxWaitingBytes: 1000 });
  output.write("first");
  await eventually(() => failures === 1);
  for (let at = 0; at < 20; at += 1) output.write(`${at}`.padStart(99, "0"));
  assert.is(lost, 10);
  await clock.runNext();
  await eventually(() => failures === 2);
  assert.equal(logged, ["the audit log cannot be written"]);
  rmSync(path);
  await clock.runNext();
  await eventually(() => linesOf(path).length === 11);
  assert.equal(logged, ["the audit log cannot be written", "the audit log is written again"]);
  output.write("last");
  await output.close();
  const lines = linesOf(path);
  assert.equal([lines[0], lines[1], lines[10]], ["first", "0".padStart(99, "0"), "9".padStart(99, "0")]);
  const { audit, omitted, why } = JSON.parse(lines[11] ?? "");
  assert.equal([audit, omitted, why, lines[12]], [true, 10, "lost", "last"]);
});

test("a close does not wait for a disk that stays full", async () => {
  const output = openAuditOutput("/dev/full", { ...options, clock: manualClock() });
  output.write("never");
  await eventually(() => failures === 1);
  await output.close();
  assert.is(failures >= 2, true);
});

test("a file in a folder that does not exist is refused with what to do", () => {
  assert.throws(
    () => openAuditOutput(join(folder, "none/audit.jsonl"), options),
    /^TENANCY_AUDIT: cannot open .*none\/audit\.jsonl: ENOENT.*; make its folder/,
  );
});

test.run();
