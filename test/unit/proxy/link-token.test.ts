// @runtimes bun node deno
import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLinkTokens, type LinkGrant } from "../../../edge/proxy/entry/link-token.ts";
import { readKeys } from "../../../edge/proxy/entry/signing-keys.ts";
import { takeToken } from "../../../edge/proxy/entry/token-parameter.ts";

const test = suite("tokens of links");

const NOW = 1_800_000_000_000;
const grant: LinkGrant = { tenantId: "alice", workload: "app", port: 9000, expiresAt: NOW / 1000 + 60 };
const keyOf = (letter: string) => createSecretKey(Buffer.alloc(32, letter));

function tokensWith(keys: KeyObject[], now = NOW) {
  return createLinkTokens({ keys: () => keys, now: () => now });
}

test("a token says what it grants, for its purpose and until its end", () => {
  const signedBy = keyOf("a");
  const tokens = tokensWith([signedBy]);
  const token = tokens.sign("link", grant) ?? "";
  assert.equal(tokens.read("link", token), { ...grant, signedBy });
  assert.is(tokens.read("cookie", token), undefined);
  assert.is(tokensWith([keyOf("a")], NOW + 59_999).read("link", token) === undefined, false);
  assert.is(tokensWith([keyOf("a")], NOW + 60_000).read("link", token), undefined);
  const { port, ...withoutPort } = grant;
  assert.equal(tokens.read("cookie", tokens.sign("cookie", withoutPort)), { ...withoutPort, signedBy });
});

test("what was read holds until its end, and while its key is in use, also where that was read anew", () => {
  const read = tokensWith([keyOf("a")]).read("link", tokensWith([keyOf("a")]).sign("link", grant));
  if (read === undefined) throw new Error("the token was not read");
  assert.is(tokensWith([keyOf("b"), keyOf("a")], NOW + 59_999).holds(read), true);
  assert.is(tokensWith([keyOf("a")], NOW + 60_000).holds(read), false);
  assert.is(tokensWith([keyOf("b")]).holds(read), false);
  assert.is(tokensWith([]).holds(read), false);
});

test("every change of a single bit is refused, and so is every other text", () => {
  const tokens = tokensWith([keyOf("a")]);
  const token = tokens.sign("link", { tenantId: "a", workload: "b", expiresAt: grant.expiresAt }) ?? "";
  for (let at = 0; at < token.length; at += 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      const changed = String.fromCharCode(token.charCodeAt(at) ^ (1 << bit));
      const text = token.slice(0, at) + changed + token.slice(at + 1);
      assert.is(tokens.read("link", text), undefined, text);
    }
    assert.is(tokens.read("link", token.slice(0, at)), undefined);
    assert.is(tokens.read("link", token.slice(0, at) + token.slice(at + 1)), undefined);
  }
  for (const text of [
    undefined,
    "",
    ".",
    `${token}.`,
    `${token}=`,
    ` ${token}`,
    `${token} `,
    `${token}\n`,
    "x".repeat(1e5),
  ])
    assert.is(tokens.read("link", text), undefined);
  const [payload = "", mac = ""] = token.split(".");
  const padded = `${Buffer.from(payload, "base64url").toString("base64")}.${mac}`;
  assert.is(padded === token ? undefined : tokens.read("link", padded), undefined);
});

test("the newest key signs, both are good, and one that was removed is not", () => {
  const [before, after] = [keyOf("a"), keyOf("b")];
  const old = tokensWith([before]).sign("link", grant) ?? "";
  const both = tokensWith([after, before]);
  assert.equal(both.read("link", old), { ...grant, signedBy: before });
  const fresh = both.sign("link", grant) ?? "";
  assert.equal(tokensWith([after]).read("link", fresh), { ...grant, signedBy: after });
  assert.is(tokensWith([before]).read("link", fresh), undefined);
  assert.is(tokensWith([after]).read("link", old), undefined);
  assert.is(tokensWith([]).read("link", fresh), undefined);
  assert.is(tokensWith([]).sign("link", grant), undefined);
});

test("a payload of another form that our key signed is refused as any bad token", () => {
  const secret = Buffer.alloc(32, "a");
  const tokens = tokensWith([createSecretKey(secret)]);
  const good = { v: 1, p: "link", t: "a", w: "b", e: grant.expiresAt };
  const read = (payload: string) => {
    const text = Buffer.from(payload).toString("base64url");
    return tokens.read("link", `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`);
  };
  assert.is(read(JSON.stringify(good))?.tenantId, "a");
  for (const other of [{ ...good, v: 2 }, { ...good, more: 1 }, { ...good, e: "1" }, null])
    assert.is(read(JSON.stringify(other)), undefined);
  assert.is(read("no JSON"), undefined);
});

test("takeToken cuts every token and nothing else", () => {
  const cases: [string, string, string | undefined][] = [
    ["/", "/", undefined],
    ["/?", "/?", undefined],
    ["/a?tenancy-token=x", "/a", "x"],
    ["/a?tenancy-token=", "/a", ""],
    ["/a?b&tenancy-token=x=y&c=%zz+", "/a?b&c=%zz+", "x=y"],
    ["/a?tenancy%2dtoken=x&tenancy-token=y", "/a", "x"],
    ["/a?tenancy-token", "/a", "tenancy-token"],
    ["/tenancy-token=x?xtenancy-token=y", "/tenancy-token=x?xtenancy-token=y", undefined],
    ["/a?b?tenancy-token=x", "/a?b?tenancy-token=x", undefined],
    ["/a?&&tenancy-token=x&&", "/a?&&&", "x"],
  ];
  for (const [target, rest, token] of cases) assert.equal(takeToken(target), { target: rest, token }, target);
});

test("readKeys: the newest name first, two at most, none that is short", () => {
  const data = (entries: Record<string, number>) =>
    Object.fromEntries(
      Object.entries(entries).map(([name, size]) => [name, Buffer.alloc(size, name).toString("base64")]),
    );
  const names = (secret: Record<string, number>) =>
    readKeys({ data: data(secret) }).keys.map((key) => String(key.export().subarray(0, 2)));
  assert.equal(names({ "01": 32 }), ["01"]);
  assert.equal(names({ "01": 32, "02": 64 }), ["02", "01"]);
  assert.match(
    readKeys({ data: data({ "01": 32, "02": 31 }) }).problem ?? "",
    "key 02 of Secret tenancy-proxy-keys has 31 bytes",
  );
  assert.equal(names({ "01": 32, "02": 31 }), []);
  assert.match(readKeys({ data: data({ "01": 32, "02": 32, "03": 32 }) }).problem ?? "", "has 3 keys");
  assert.match(readKeys(undefined).problem ?? "", "does not exist");
  assert.match(readKeys({}).problem ?? "", "does not exist");
});

test("what is secret at the front door is compared by timingSafeEqual alone", () => {
  const folder = join(import.meta.dirname, "../../../edge/proxy/entry");
  const compared = /\b(?:signature|mac|token|secret|apiKey|presented)\b\s*[!=]={1,2}(?![=\s]*undefined)/;
  for (const name of readdirSync(folder)) {
    const lines = readFileSync(join(folder, name), "utf8").split("\n");
    for (const line of lines) assert.not.match(line, compared, `${name}: ${line}`);
  }
});

test.run();
