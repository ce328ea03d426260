import { createPrivateKey, X509Certificate } from "node:crypto";
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

test("issues certificates that it has signed and that say who, where and for how long", async ({ folder }) => {
  const authority = await openAuthority(folder);
  const issued = await authority.issue({
    fileName: "server",
    commonName: "kube-apiserver",
    organizations: ["system:nodes", "Zürich"],
    alternativeNames: ["localhost", "127.0.0.1"],
    purpose: "both",
  });
  const root = new X509Certificate(authority.certificate);
  const certificate = new X509Certificate(issued.certificate);
  assert.ok(root.ca);
  assert.not.ok(certificate.ca);
  assert.ok(certificate.verify(root.publicKey));
  assert.ok(certificate.checkIssued(root));
  assert.is(certificate.subject, "O=system:nodes\nO=Zürich\nCN=kube-apiserver");
  assert.is(certificate.subjectAltName, "DNS:localhost, IP Address:127.0.0.1");
  assert.equal(certificate.keyUsage, ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
  assert.ok(certificate.checkPrivateKey(createPrivateKey(issued.key)));
  assert.ok(Date.parse(certificate.validFrom) < Date.now());
  assert.ok(Date.parse(certificate.validTo) > Date.now() + 365 * 86_400_000);
});

test("issues one that has expired when the days are negative", async ({ folder }) => {
  const { certificate } = await (await openAuthority(folder)).issue({
    fileName: "old",
    commonName: "old",
    purpose: "client",
    days: -1,
  });
  const { validFrom, validTo } = new X509Certificate(certificate);
  assert.ok(Date.parse(validTo) < Date.now());
  assert.ok(Date.parse(validFrom) < Date.parse(validTo));
});

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
