import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openAuthority } from "../../../scripts/cluster/pki/authority.ts";

const test = suite<{ folder: string }>("authority");
test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "authority-test-"));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

test("writes years from 2050 on as RFC 5280 wants them", async ({ folder }) => {
  const days = 30 * 365;
  const { certificate } = await (await openAuthority(folder)).issue({
    fileName: "long",
    commonName: "long",
    purpose: "client",
    days,
  });
  assert.is(
    new Date(new X509Certificate(certificate).validTo).getUTCFullYear(),
    new Date(Date.now() + days * 86_400_000).getUTCFullYear(),
  );
});

test("is the same when it is opened again, and gives out what it has given out", async ({ folder }) => {
  const first = await openAuthority(folder);
  const second = await openAuthority(folder);
  const options = { fileName: "client", commonName: "jane", purpose: "client" } as const;
  assert.is(first.certificate, second.certificate);
  const [one, other] = await Promise.all([first.issue(options), second.issue(options)]);
  assert.is(one.certificate, other.certificate);
  assert.is(one.key, other.key);
});

test("keeps keys from other users", async ({ folder }) => {
  const { keyPath } = await (await openAuthority(folder)).issue({
    fileName: "client",
    commonName: "jane",
    purpose: "client",
  });
  assert.is(statSync(keyPath).mode & 0o777, 0o600);
  assert.is(statSync(join(folder, "ca.key")).mode & 0o777, 0o600);
});

test.run();
