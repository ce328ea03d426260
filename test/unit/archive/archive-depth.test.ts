import { test } from "uvu";
import * as assert from "uvu/assert";
import { checkArchive, limits } from "./check-archive.ts";
import { type RawEntry, rawTar } from "./raw-tar.ts";

const DEPTH = 2000;
const ENTRIES = 20;

function deep(first: string, last: string): string {
  return `data/${first}/${"a/".repeat(DEPTH)}${last}`;
}

function named(path: string, entry: Partial<RawEntry> = {}): RawEntry[] {
  return [
    { name: "long", type: "L", content: Buffer.from(`${path}\0`) },
    { name: "short", ...entry },
  ];
}

/** Bytes of the strings that are looked up in sets and maps while an archive is checked: each is hashed. */
async function bytesLookedUp(archive: Buffer): Promise<number> {
  const { has } = Set.prototype;
  const { get } = Map.prototype;
  let bytes = 0;
  const count = (key: unknown): void => {
    if (typeof key === "string") bytes += key.length;
  };
  Set.prototype.has = function (key: unknown) {
    count(key);
    return has.call(this, key);
  };
  Map.prototype.get = function (key: unknown) {
    count(key);
    return get.call(this, key);
  };
  try {
    await checkArchive(archive, { limits: { ...limits, maxEntries: 10_000 } });
  } finally {
    Set.prototype.has = has;
    Map.prototype.get = get;
  }
  return bytes;
}

const shapes: [what: string, before: RawEntry[]][] = [
  ["without symlinks", []],
  ["with a symlink elsewhere", [{ name: "data/link", type: "2", target: "elsewhere" }]],
  ["with a symlink in the deepest folder", named(deep("x", "link"), { type: "2", target: "elsewhere" })],
  [
    "with a symlink in each folder of another path",
    Array.from({ length: 40 }, (_, index) =>
      named(`data/y/${"a/".repeat(index * 50)}link`, { type: "2", target: "a" }),
    ).flat(),
  ],
];

for (const [what, before] of shapes) {
  test(`createArchiveCheck looks a deep path up in steps that cost as much as it is long, ${what}`, async () => {
    const files = Array.from({ length: ENTRIES }, (_, index) => named(deep("x", `${index}`)));
    const links = Array.from({ length: ENTRIES }, (_, index) => [
      { name: "long", type: "K", content: Buffer.from(`${deep("x", `${index}`)}\0`) },
      { name: `data/${index}`, type: "1" },
    ]);
    const pathBytes = (2 * ENTRIES + before.length) * deep("x", "1").length;
    const bytes = await bytesLookedUp(rawTar([...before, ...files.flat(), ...links.flat()]));
    assert.ok(bytes < 10 * pathBytes, `${bytes} bytes for ${pathBytes} of paths`);
  });
}

test.run();
