import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { WorkloadNetwork } from "../../../crds/network.ts";
import { issueAuthority, issueLeaf } from "../../../operator/egress/certificates.ts";
import { parseDomainPattern } from "../../../operator/egress/domain-pattern.ts";
import { egressProblems } from "../../../operator/egress/egress-problems.ts";
import { egressRules, valueVariable } from "../../../operator/egress/egress-rules.ts";
import { upstreamAuthorities } from "../../../operator/egress/layout.ts";
import { renderProxyConfig } from "../../../operator/egress/render-proxy-config.ts";
import { anyCharacter } from "../any-character.ts";

const test = suite("renderProxyConfig");
const reference = { name: "github", key: "token" };
const header = (name: string, secretKeyRef = reference) => ({ name, valueFrom: { secretKeyRef } });
const spec = (network: WorkloadNetwork) => ({
  image: { ref: "i" },
  network: { access: "restricted" as const, ...network },
});

function render(network: WorkloadNetwork, folders?: { settings: string; run: string }): string {
  const rules = egressRules(spec(network));
  if (rules === undefined) throw new Error("no rules");
  return renderProxyConfig({ rules, folders });
}

test("a workload has rules when it is restricted and names something", () => {
  const image = { ref: "i" };
  assert.is(egressRules({ image }), undefined);
  assert.is(egressRules({ image, network: { access: "restricted" } }), undefined);
  assert.is(egressRules({ image, network: { access: "none", allowlist: ["a.b"] } }), undefined);
  assert.is(egressRules({ image, network: { access: "unrestricted", allowlist: ["a.b"] } }), undefined);
  assert.is(egressRules(spec({ allowlist: ["a.b"] }))?.allowed?.length, 1);
  assert.is(egressRules(spec({ credentials: [{ domain: "a.b", headers: [] }] }))?.allowed, undefined);
});

for (const [what, network, has, hasNot] of [
  [
    "a name",
    { allowlist: ["Example.COM"] },
    ["acl allowed var(txn.name) -m str example.com\n", "not-listed"],
    ["inject", "-m end"],
  ],
  ["a wildcard", { allowlist: ["*.example.com"] }, ["acl allowed var(txn.name) -m end .example.com\n"], ["-m str"]],
  [
    "credentials without an allowlist leave every other name open",
    { credentials: [{ domain: "a.b", headers: [header("X-A")] }] },
    [
      "acl injected var(txn.name) -m str a.b\n",
      `set-header X-A %[env(${valueVariable(reference)})]\n`,
      "verify required",
    ],
    ["not-listed", "too-deep"],
  ],
  [
    "credentials for a wildcard",
    { allowlist: ["c.d"], credentials: [{ domain: "*.a.b", headers: [header("X-A")] }] },
    ["acl injected var(txn.parent) -m str a.b\n", "acl too_deep var(txn.name) -m end .a.b\n", "not-listed"],
    [],
  ],
] as const) {
  test(what, () => {
    const config = render(network as unknown as WorkloadNetwork);
    for (const part of has) assert.ok(config.includes(part), `${part} is missing in\n${config}`);
    for (const part of hasNot) assert.not.ok(config.includes(part), `${part} is in\n${config}`);
  });
}

test("order, case and repetition of the same names change nothing", () => {
  const credentials = [
    { domain: "x.y", headers: [header("A")] },
    { domain: "z.y", headers: [header("B")] },
  ];
  assert.is(
    render({ allowlist: ["b.c", "a.c"], credentials }),
    render({ allowlist: ["A.c", "B.C", "a.c"], credentials: [...credentials].reverse() }),
  );
});

test("opened ranges are ranges", () => {
  const rules = egressRules(spec({ allowlist: ["a.b"] }));
  assert.ok(rules);
  assert.ok(
    renderProxyConfig({ rules, openedRanges: ["10.1.0.0/16", "fd12::/32"] }).includes(
      "acl opened var(txn.address) -m ip fd12::/32\n",
    ),
  );
  for (const range of [
    "10.1.0.0",
    "10.1.0.0/33",
    "a/8",
    "10.0.0.0/8\n",
    "10.0.0.0/8 #",
    "::/129",
    "/8",
    "fe80::%a/10",
  ]) {
    assert.throws(() => renderProxyConfig({ rules, openedRanges: [range] }), /Cannot open/);
  }
});

test("every illegal name is refused with a sentence that names it", () => {
  const hostile = [
    "a b",
    "a\nb",
    'a"b',
    "a'b",
    "a#b",
    "a%b",
    "a\\b",
    "a$b",
    `$\{A}`,
    "a;b",
    "a{b",
    "",
    "a..b",
    ".a",
    "a.",
    "-a",
    "a,b",
    "1.2.3.4",
    "*.*.a",
    "*",
    "a.*",
    "ä.b",
    "\u212a.b",
    "a\0b",
    "a\u2028b",
  ];
  for (const text of hostile) {
    assert.throws(() => render({ allowlist: [text] }), /Cannot use/, `allowlist ${JSON.stringify(text)}`);
    assert.throws(() => render({ credentials: [{ domain: text, headers: [] }] }), /Cannot use/);
    assert.is(egressProblems(spec({ allowlist: [text] })).length, 1);
  }
  for (const text of [
    ...hostile.filter((one) => !/^[a-z0-9.]+$/i.test(one) || /^\.|\.$/.test(one)),
    "a:b",
    "a b: c",
    "%[env(A)]",
    "Host",
    "content-length",
    "Transfer-Encoding",
    "connection",
  ]) {
    assert.throws(
      () => render({ credentials: [{ domain: "a.b", headers: [header(text)] }] }),
      /Cannot set header/,
      text,
    );
    assert.match(
      egressProblems(spec({ credentials: [{ domain: "a.b", headers: [header(text)] }] })).join(),
      /headers\[0\]\.name: /,
    );
  }
  for (const secret of [
    { name: "A b", key: "k" },
    { name: "a/../b", key: "k" },
    { name: "a", key: "../k" },
    { name: "a", key: "k\n" },
    { name: "a..b", key: "k" },
  ]) {
    assert.throws(() => render({ credentials: [{ domain: "a.b", headers: [header("X", secret)] }] }), /Cannot refer/);
  }
});

test("what the proxy cannot do is said", () => {
  const says = (network: WorkloadNetwork, expected: RegExp) =>
    assert.match(egressProblems(spec(network)).join("; "), expected);
  says({ allowlist: ["a.b"], ports: [8080, 15443] }, /spec\.network\.ports\[1\]: the proxy uses 15443/);
  says(
    {
      credentials: [
        { domain: "a.b", headers: [] },
        { domain: "A.b", headers: [] },
      ],
    },
    /a\.b occurs twice/,
  );
  says(
    { credentials: [{ domain: "a.b", headers: [header("X", { name: "tenancy-egress-ca-x", key: "ca.key" })] }] },
    /belong to the operator/,
  );
  assert.match(
    egressProblems({
      ...spec({ allowlist: ["a.b"] }),
      filesystem: { overlayDirs: ["/a", "/.tenancy-trust/b"] },
    }).join(),
    /^spec\.filesystem\.overlayDirs\[1\]: \/\.tenancy-trust holds/,
  );
  assert.equal(egressProblems(spec({ access: "none", credentials: [{ domain: "a b", headers: [] }] })), []);
  assert.equal(egressProblems(spec({ ports: [15443] })), []);
  assert.equal(
    egressProblems(spec({ allowlist: ["a.b", "*.c.d"], credentials: [{ domain: "a.b", headers: [header("X-A")] }] })),
    [],
  );
});

/** Every line of a configuration without what a workload may choose: a fixed set, whatever is chosen. */
function shape(config: string): Set<string> {
  const chosen =
    /-m (str|end) \.?[a-z0-9_.-]+( }|$)|set-header [A-Za-z0-9][-_.A-Za-z0-9]* |CREDENTIAL_[0-9A-F]{24}|credential_[0-9]+/g;
  return new Set(config.split("\n").map((line) => line.replaceAll(chosen, "•")));
}

test("no input adds a directive: what is rendered has the lines of a plain configuration, else it is refused", () => {
  const plain = shape(
    render({
      allowlist: ["a.b", "*.c.d"],
      credentials: [
        { domain: "e.f", headers: [header("G")] },
        { domain: "*.h.i", headers: [header("J")] },
      ],
    }),
  );
  const label = fc.stringMatching(/^[a-zA-Z0-9_]([-a-zA-Z0-9_]{0,8}[a-zA-Z0-9_])?$/);
  const legal = fc
    .tuple(fc.constantFrom("", "*."), fc.array(label, { minLength: 1, maxLength: 4 }))
    .map(([star, labels]) => star + labels.join("."));
  const nasty = fc.constantFrom(
    "\n",
    "\r\n",
    " ",
    "\t",
    '"',
    "'",
    "#",
    "%",
    "\\",
    `$\{A}`,
    "%[env(A)]",
    "\n    http-request allow\n",
    "{",
    "}",
    " or ",
    "\0",
    "\u0085",
    "\u2028",
  );
  const text = fc.oneof(
    { weight: 12, arbitrary: legal },
    fc.string({ unit: anyCharacter }),
    fc.tuple(legal, nasty, legal).map((parts) => parts.join("")),
  );
  const name = fc.oneof({ weight: 8, arbitrary: fc.stringMatching(/^[A-Za-z0-9][-_.A-Za-z0-9]*$/) }, text);
  const entry = fc.record({
    domain: text,
    headers: fc.array(
      fc.record({
        name,
        key: fc.oneof({ weight: 8, arbitrary: fc.constant("k") }, text),
        secret: fc.oneof({ weight: 8, arbitrary: fc.constant("s") }, text),
      }),
      { maxLength: 3 },
    ),
  });
  let rendered = 0;
  fc.assert(
    fc.property(fc.array(text, { maxLength: 3 }), fc.array(entry, { maxLength: 2 }), (allowlist, entries) => {
      const network = {
        allowlist,
        credentials: entries.map(({ domain, headers }) => ({
          domain,
          headers: headers.map((one) => header(one.name, { name: one.secret, key: one.key })),
        })),
      };
      if (allowlist.length + entries.length === 0) return;
      const problems = egressProblems(spec(network));
      let config: string;
      try {
        config = render(network);
      } catch (error) {
        assert.instance(error, TypeError);
        assert.ok(problems.length > 0, "what throws is named as a problem");
        return;
      }
      rendered += 1;
      for (const line of shape(config)) assert.ok(plain.has(line), `new line ${JSON.stringify(line)}`);
      assert.ok(/^[\x20-\x7e\n]*$/.test(config));
    }),
    { numRuns: 1000 },
  );
  assert.ok(rendered > 100, `only ${rendered} were rendered`);
});

const haproxy = ["/usr/sbin/haproxy", "/usr/bin/haproxy", "/usr/local/sbin/haproxy"].find((path) => existsSync(path));
// Skipped where HAProxy is not installed: unit tests install nothing, and test/e2e/egress runs it in any case.
const check = haproxy === undefined ? test.skip : test; // no HAProxy on this machine

check("HAProxy takes what is rendered, without a warning", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-proxy-config-"));
  const folders = { settings: join(folder, "settings"), run: join(folder, "run") };
  mkdirSync(join(folders.settings, "leaves"), { recursive: true });
  mkdirSync(folders.run);
  try {
    const domain = parseDomainPattern("api.example.com");
    const authority = await issueAuthority({ workload: "w", domains: [domain], now: new Date() });
    const leaf = await issueLeaf(authority, { domain, now: new Date() });
    writeFileSync(join(folders.settings, "leaves", "a.pem"), leaf.certificate + leaf.key);
    writeFileSync(upstreamAuthorities(folders), authority.certificate);
    const many = Array.from(
      { length: 512 },
      (_, index) => `${index % 2 ? "*." : ""}${"x".repeat(60)}.${"y".repeat(60)}.n${index}.example`,
    );
    const networks: WorkloadNetwork[] = [
      { allowlist: ["a.b"] },
      { allowlist: ["*.a.b"] },
      { allowlist: many },
      { credentials: [{ domain: "api.example.com", headers: [header("A")] }] },
      { credentials: [{ domain: "api.example.com", headers: [] }] },
      {
        allowlist: many,
        credentials: many.slice(0, 64).map((name) => ({
          domain: name,
          headers: Array.from({ length: 32 }, (_, index) => header(`X-${index}`, { name: "s", key: `k${index}` })),
        })),
      },
    ];
    const file = join(folder, "haproxy.cfg");
    for (const network of networks) {
      for (const env of [{}, { TENANCY_IPV6: "1" }]) {
        // That the machine's own nameserver is out of reach, as where there is no network, would be a warning.
        const settings = render(network, folders).replace("parse-resolv-conf", "nameserver local 127.0.0.1:53");
        writeFileSync(file, settings);
        // Warnings fail it too.
        execFileSync(haproxy ?? "", ["-c", "-dW", "-f", file], { env, stdio: "pipe" });
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
