// @runtimes node bun
import { PassThrough } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { CommandError, UsageError } from "../../../edge/cli/command.ts";
import { escapeJson, escapeLines, escapeText } from "../../../edge/cli/escape.ts";
import { failureOf } from "../../../edge/cli/exit-code.ts";
import { createPrinter, type Format } from "../../../edge/cli/printer.ts";
import { ApiError } from "../../../edge/client/index.ts";

const test = suite("output of tenancy");

interface Item {
  name: string;
  size?: number;
}
/** A name that clears the screen, sets the title and turns the text around. */
const HOSTILE = "a\u001b[2J\u009d0;x\u0007\u202eb\nc\ud800";
const shape = {
  columns: [
    ["NAME", ({ name }: Item) => name],
    ["SIZE", ({ size }: Item) => size],
  ] as const,
  name: ({ name }: Item) => name,
};

async function printed(format: Format, items: Item[], { isTerminal = false } = {}): Promise<string> {
  const stdout = Object.assign(new PassThrough(), { isTTY: isTerminal });
  const pieces: Buffer[] = [];
  stdout.on("data", (piece: Buffer) => pieces.push(piece));
  const print = createPrinter(format, { stdout, stderr: new PassThrough() });
  await print.list(items, shape);
  for (const item of items) await print.event(item, { text: shape.name, name: shape.name });
  return String(Buffer.concat(pieces));
}

test("a table has columns as wide as their texts", async () => {
  assert.is(
    await printed("table", [{ name: "long name", size: 1 }, { name: "b" }]),
    "NAME       SIZE\nlong name  1\nb          -\nlong name\nb\n",
  );
});

test("no byte of a tenant's text reaches a terminal as a control character", async () => {
  for (const format of ["table", "json", "yaml", "name"] as const) {
    const text = await printed(format, [{ name: HOSTILE }], { isTerminal: true });
    assert.not.match(text.replaceAll("\n", ""), /[\p{Cc}\p{Cs}\u202e]/u, format);
  }
  assert.match(await printed("table", [{ name: HOSTILE }]), "a\\x1b[2J\\x9d0;x\\x07\\u{202e}b\\nc\\u{d800}");
});

test("json and yaml keep the value, also on a terminal", async () => {
  for (const isTerminal of [false, true]) {
    const value = { name: HOSTILE.replace("\ud800", ""), size: 3 };
    const [list] = (await printed("json", [value], { isTerminal })).split(/(?<=\n\]\n)/);
    assert.equal(JSON.parse(list ?? ""), [value]);
  }
  assert.equal(parse((await printed("yaml", [{ name: "a: b" }])).split("---")[0] ?? ""), [{ name: "a: b" }]);
});

test("escapes", () => {
  assert.is(escapeText("a\tb é 漢 👩‍👩‍👧"), "a\\tb é 漢 👩‍👩‍👧");
  assert.is(escapeLines("a\n\tb\u0085"), "a\n\tb\\x85");
  assert.is(JSON.parse(escapeJson(JSON.stringify("\u009b\u2066"))), "\u009b\u2066");
});

test("exit codes are those of the page", () => {
  const of = (status: number, message = "m") => failureOf(new ApiError(message, { status, requestId: "r-1" }));
  assert.equal(
    [0, 400, 401, 403, 404, 409, 410, 413, 429, 500, 503, 504, 507].map((status) => of(status).exitCode),
    [6, 1, 4, 4, 3, 5, 3, 1, 6, 1, 6, 6, 1],
  );
  assert.is(failureOf(new UsageError("u")).exitCode, 2);
  assert.is(failureOf(new CommandError("c", { exitCode: 130 })).exitCode, 130);
  assert.equal(failureOf("x"), { exitCode: 1, message: "x" });
  assert.match(of(401).message, "tenancy login");
  assert.match(of(0, "http://x cannot be reached: no").message, "TENANCY_URL");
  assert.match(of(500).message, "request r-1");
});

test.run();
