import { createPrivateKey, X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:tls";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type CertifiedKey, DAY_MS, issueAuthority, issueLeaf } from "../../../operator/egress/certificates.ts";
import { parseDomainPattern } from "../../../operator/egress/domain-pattern.ts";
import { egressCertificates, leafFile } from "../../../operator/egress/egress-certificates.ts";
import { egressObjects, presentCertificates } from "../../../operator/egress/egress-objects.ts";
import { egressRules } from "../../../operator/egress/egress-rules.ts";

const test = suite("egressCertificates");
const domains = ["api.example.com", "*.wild.example"].map(parseDomainPattern);
const [api, wild] = domains as [(typeof domains)[0], (typeof domains)[0]];
const start = new Date("2026-06-01T12:00:00Z");
const after = (days: number) => new Date(start.getTime() + days * DAY_MS);
const workload = "hello";

/** Whether a client that trusts the authority alone takes the leaf for the name, over TLS on loopback. */
async function isTaken(authority: CertifiedKey, leaf: CertifiedKey, servername: string): Promise<string> {
  const server = createServer({ cert: leaf.certificate, key: leaf.key }, (socket) => socket.end());
  server.on("tlsClientError", () => undefined);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: "127.0.0.1", servername, ca: authority.certificate });
  try {
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(60_000) });
    return "taken";
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return `${code} ${message}`;
  } finally {
    socket.destroy();
    server.close();
  }
}

test("an authority can sign for its domains and for nothing else", async () => {
  const now = new Date();
  const authority = await issueAuthority({ workload, domains, now });
  const certificate = new X509Certificate(authority.certificate);
  assert.ok(certificate.ca);
  assert.ok(certificate.verify(certificate.publicKey));
  assert.is(certificate.publicKey.asymmetricKeyDetails?.namedCurve, "prime256v1");
  const leaf = async (domain: string) => issueLeaf(authority, { domain: parseDomainPattern(domain), now });
  assert.is(await isTaken(authority, await leaf("api.example.com"), "api.example.com"), "taken");
  assert.is(await isTaken(authority, await leaf("*.wild.example"), "one.wild.example"), "taken");
  assert.match(await isTaken(authority, await leaf("api.example.com"), "b.example.com"), /ALTNAME_INVALID/);
  assert.match(await isTaken(authority, await leaf("other.example"), "other.example"), /permitted subtree violation/);
  const under = await issueLeaf(await leaf("api.example.com"), { domain: api, now });
  assert.is.not(await isTaken(authority, under, "api.example.com"), "taken");
});

test("a leaf is for servers, names its domain alone, and lasts thirty days", async () => {
  const authority = await issueAuthority({ workload, domains, now: start });
  const leaf = await issueLeaf(authority, { domain: wild, now: start });
  const certificate = new X509Certificate(leaf.certificate);
  assert.is(certificate.subjectAltName, "DNS:*.wild.example");
  assert.equal(certificate.keyUsage, ["1.3.6.1.5.5.7.3.1"]);
  assert.not.ok(certificate.ca);
  assert.ok(certificate.checkIssued(new X509Certificate(authority.certificate)));
  assert.ok(certificate.checkPrivateKey(createPrivateKey(leaf.key)));
  assert.is(Date.parse(certificate.validTo), after(30).getTime());
  assert.ok(Date.parse(certificate.validFrom) < start.getTime());
});

test("names of any legal length get certificates", async () => {
  const long = parseDomainPattern(["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join("."));
  const many = Array.from({ length: 64 }, (_, index) => parseDomainPattern(`n${index}.${long.name.slice(4)}`));
  const { authority, leaves } = await egressCertificates({
    workload: "w".repeat(63),
    domains: [long, ...many],
    now: new Date(),
  });
  const leaf = leaves.get(leafFile(long));
  assert.ok(leaf);
  assert.is(await isTaken(authority, leaf, long.name), "taken");
});

test("what is present and sound is kept until it is due", async () => {
  const first = await egressCertificates({ workload, domains, now: start });
  assert.ok(first.isChanged);
  assert.is(first.renewAt.getTime(), after(20).getTime());
  assert.is(first.endsAt.getTime(), after(30).getTime());

  const same = await egressCertificates({ workload, domains, now: after(19.9), present: first });
  assert.not.ok(same.isChanged);
  assert.equal([...same.leaves], [...first.leaves]);

  const due = await egressCertificates({ workload, domains, now: after(20.1), present: first });
  assert.ok(due.isChanged);
  assert.is(due.authority, first.authority);
  for (const [file, leaf] of due.leaves) assert.is.not(leaf.certificate, first.leaves.get(file)?.certificate);

  const years = await egressCertificates({ workload, domains, now: after(4 * 365 + 1), present: first });
  assert.is.not(years.authority.key, first.authority.key);
});

test("other domains change the authority's certificate and not its key, and leave the other leaves", async () => {
  const first = await egressCertificates({ workload, domains, now: start });
  const more = [...domains, parseDomainPattern("new.example")];
  const second = await egressCertificates({ workload, domains: more, now: after(1), present: first });
  assert.ok(second.isChanged);
  assert.is(second.authority.key, first.authority.key);
  assert.is.not(second.authority.certificate, first.authority.certificate);
  assert.equal(second.leaves.get(leafFile(api)), first.leaves.get(leafFile(api)));
  assert.is(second.leaves.size, 3);
  const fewer = await egressCertificates({ workload, domains: [api], now: after(2), present: second });
  assert.ok(fewer.isChanged);
  assert.is(fewer.leaves.size, 1);
});

test("what is damaged or another's is made anew", async () => {
  const first = await egressCertificates({ workload, domains, now: start });
  const other = await egressCertificates({ workload: "other", domains, now: start });
  const file = leafFile(api);
  for (const leaf of [
    { certificate: "", key: "" },
    { certificate: "damaged", key: first.leaves.get(file)?.key ?? "" },
    { certificate: first.leaves.get(file)?.certificate ?? "", key: other.leaves.get(file)?.key ?? "" },
    other.leaves.get(file) as CertifiedKey,
    first.leaves.get(leafFile(wild)) as CertifiedKey,
  ]) {
    const present = { authority: first.authority, leaves: new Map([...first.leaves, [file, leaf]]) };
    const healed = await egressCertificates({ workload, domains, now: start, present });
    assert.ok(healed.isChanged);
    const made = new X509Certificate(healed.leaves.get(file)?.certificate ?? "");
    assert.ok(made.checkIssued(new X509Certificate(first.authority.certificate)));
    assert.is(made.subjectAltName, "DNS:api.example.com");
  }
  const authority = { certificate: first.authority.certificate, key: other.authority.key };
  const replaced = await egressCertificates({
    workload,
    domains,
    now: start,
    present: { authority, leaves: first.leaves },
  });
  assert.is.not(replaced.authority.certificate, first.authority.certificate);
});

test("Secrets are read back as they were written, and only one of them has the authority's key", async () => {
  const reference = { name: "github", key: "token" };
  const rules = egressRules({
    image: { ref: "i" },
    network: {
      access: "restricted",
      credentials: domains.map(({ text }) => ({
        domain: text,
        headers: [{ name: "A", valueFrom: { secretKeyRef: reference } }],
      })),
    },
  });
  assert.ok(rules);
  const certificates = await egressCertificates({ workload, domains, now: start });
  const owner = { apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyWorkload", name: workload, uid: "u" };
  const objects = egressObjects({ workload, namespace: "n", owner, rules, certificates });
  const present = presentCertificates(objects);
  assert.not.ok((await egressCertificates({ workload, domains, now: start, present })).isChanged);
  const key = certificates.authority.key.split("\n")[1] ?? "";
  const plain = (data: Record<string, string> = {}) =>
    Object.values(data).map((value) => Buffer.from(value, "base64").toString());
  assert.ok(plain(objects.authority?.data).join("").includes(key));
  assert.not.ok(plain(objects.leaves?.data).join("").includes(key));
  assert.not.match(JSON.stringify(objects.settings), /PRIVATE KEY/);
  assert.match(objects.settings.data?.["values.list"] ?? "", /^CREDENTIAL_[0-9A-F]{24} values\/github\/token\n$/);
  assert.equal(presentCertificates({ leaves: undefined, authority: undefined }), {
    authority: undefined,
    leaves: new Map(),
  });
});

test.run();
