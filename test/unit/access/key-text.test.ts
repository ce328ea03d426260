// @runtimes bun node deno
import { createHash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { makeKeyText, parseKeyText } from "../../../edge/access/key-text.ts";

const test = suite("the text of a key");

test("parseKeyText finds in a made key its id, and the SHA-256 of its 32 secret bytes", () => {
  const { text, id, digest } = makeKeyText();
  assert.match(text, /^tk_[a-z0-9]{16}_[-\w]{43}$/);
  assert.equal(parseKeyText(text), { id, digest });
  const secret = Buffer.from(text.slice(-43), "base64url");
  assert.is(secret.length, 32);
  assert.equal(digest, createHash("sha256").update(secret).digest());
  assert.is.not(makeKeyText().text, text);
});

test("parseKeyText accepts a secret with underscores", () => {
  assert.is(parseKeyText(`tk_0123456789abcdef_${"_".repeat(42)}8`)?.id, "0123456789abcdef");
});

test("parseKeyText refuses other texts, also a second spelling of the same bytes", () => {
  const good = `tk_0123456789abcdef_${"A".repeat(43)}`;
  assert.ok(parseKeyText(good));
  for (const bad of [
    ...["", "secret", ` ${good}`, `${good}\n`, good.toUpperCase(), good.slice(0, -1), `${good}A`, `${good}=`],
    ...[good.replace("tk_", "sk_"), good.replace("0123", "O123"), `${good.slice(0, -1)}B`, `${good.slice(0, -1)}+`],
  ])
    assert.is(parseKeyText(bad), undefined, bad);
});

test.run();
