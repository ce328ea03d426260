// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readPages } from "../../../edge/dashboard/api/read-pages.ts";

const test = suite("dashboard/read-pages");

/** Reads pages that are there by where they begin. */
function read(pages: Readonly<Record<string, { rows: number[]; version?: string; next?: string }>>) {
  const asked: (string | undefined)[] = [];
  const result = readPages<number>(async (after) => {
    asked.push(after);
    const { rows = [], version, next } = pages[after ?? ""] ?? {};
    return { rows, version, next };
  });
  return { asked, result };
}

test("all pages are one list, each asked for where the one before ended", async () => {
  const { asked, result } = read({ "": { rows: [1, 2], next: "b" }, b: { rows: [3], next: "c" }, c: { rows: [] } });
  assert.equal(await result, { list: [1, 2, 3], version: undefined });
  assert.equal(asked, [undefined, "b", "c"]);
});

test("the list is as new as the oldest of its pages, which differ by the replica that answers", async () => {
  const versions = async (...each: string[]) => {
    const [first, second, third] = each;
    const pages = {
      "": { rows: [], next: "b", ...(first && { version: first }) },
      b: { rows: [], next: "c", ...(second && { version: second }) },
      c: { rows: [], ...(third && { version: third }) },
    };
    return (await read(pages).result).version;
  };
  assert.is(await versions("1000", "999", "1001"), "999");
  assert.is(await versions("99", "100", "101"), "99");
  assert.is(await versions("7", "7", "7"), "7");
});

test.run();
