// @runtimes node bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { inRanges, metadataRanges } from "../../../operator/cluster/address-ranges.ts";
import { parseChallenges } from "../../../operator/registry/authorize.ts";
import { parseReference } from "../../../operator/registry/parse-reference.ts";
import { loginsFor } from "../../../operator/registry/registry-logins.ts";
import { parseRegistrySettings } from "../../../operator/registry/registry-settings.ts";

const test = suite("what a registry is asked by");
const digest = `sha256:${"ab".repeat(32)}`;

test("parseReference: fills in what a runtime does", () => {
  for (const [text, host, repository, tag, wanted] of [
    ["busybox", "docker.io", "library/busybox", "latest"],
    ["busybox:1.37-musl", "docker.io", "library/busybox", "1.37-musl"],
    ["acme/agent", "docker.io", "acme/agent", "latest"],
    ["docker.io/busybox", "docker.io", "library/busybox", "latest"],
    ["index.docker.io/acme/agent:2", "docker.io", "acme/agent", "2"],
    ["localhost/a:1", "localhost", "a", "1"],
    ["localhost:5000/a", "localhost:5000", "a", "latest"],
    ["host:5000/a/b:c", "host:5000", "a/b", "c"],
    ["ghcr.io/acme/agent", "ghcr.io", "acme/agent", "latest"],
    ["Registry/a:1", "Registry", "a", "1"],
    ["[fd00::1]:5000/a:b", "[fd00::1]:5000", "a", "b"],
    [`a@${digest}`, "docker.io", "library/a", undefined, digest],
    [`host.example/a:1@${digest}`, "host.example", "a", "1", digest],
  ] as const) {
    assert.equal(parseReference(text), { host, repository, tag, digest: wanted }, text);
  }
  assert.throws(() => parseReference("https://host/a"), /Cannot read the image reference/);
});

test("loginsFor: the entries that a kubelet takes for an image, the more specific first", () => {
  const entry = (user: string) => ({ username: user, password: `of ${user}` });
  const config = (auths: Record<string, unknown>) => JSON.stringify({ auths });
  for (const [image, auths, users] of [
    [
      "r.example/a/b:1",
      { "r.example": entry("1"), "r.example/a": entry("2"), "other.example": entry("3") },
      ["2", "1"],
    ],
    ["r.example/a/b:1", { "https://r.example/v2/": entry("1"), "r.example/b": entry("2") }, ["1"]],
    ["r.example:5000/a", { "r.example": entry("1"), "r.example:5000": entry("2"), "r.example:80": entry("3") }, ["2"]],
    ["eu.r.example/a", { "*.r.example": entry("1"), "*.example": entry("2"), "e*.r.example": entry("3") }, ["3", "1"]],
    [
      "busybox",
      { "https://index.docker.io/v1/": entry("1"), "docker.io": entry("2"), "*.io": entry("3") },
      ["1", "2", "3"],
    ],
    ["r.example/a", { "r.example": { auth: Buffer.from("me:a:b").toString("base64") } }, ["me"]],
    ["r.example/a", { "r.example": { auth: "bm9jb2xvbg==" } }, []],
    ["r.example/a", { "r.example": { username: "me" } }, []],
    ["r.example/a", { "r.example": 1 }, []],
  ] as const) {
    const found = loginsFor(parseReference(image), [config(auths)]);
    assert.equal(
      found.map(({ username }) => username),
      users,
      `${image} ${JSON.stringify(auths)}`,
    );
  }
  const several = [config({ r: entry("1") }), "no JSON", "[]", "{}", config({ "r.example": entry("2") })];
  assert.equal(loginsFor(parseReference("r.example/a"), several), [entry("2")]);
  const [colon] = loginsFor(parseReference("r.example/a"), [
    config({ "r.example": { auth: Buffer.from("me:a:b").toString("base64") } }),
  ]);
  assert.equal(colon, { username: "me", password: "a:b" });
});

test("parseRegistrySettings: the tables of registries, whatever is around them", () => {
  const toml = `
debug = true
[worker.oci]
  http = true
[registry."docker.io"]
  mirrors = ["mirror.example:5000/hub", 'other.example'] # in this order
  # http = true
[ registry . 'plain.example' ]
http=true
[registry.bare]
  insecure = true
[registry."r.example:5000"]
  ca = [
    "/config/ca.crt", # ours
    "/etc/ssl/else.pem",
  ]
  [[registry."r.example:5000".keypair]]
    key = "/config/key"
`;
  const none = { mirrors: [], isPlain: false, isInsecure: false, authorities: [] };
  assert.equal(
    [...parseRegistrySettings(toml, { "ca.crt": "PEM" })],
    [
      ["docker.io", { ...none, mirrors: ["mirror.example:5000/hub", "other.example"] }],
      ["plain.example", { ...none, isPlain: true }],
      ["bare", { ...none, isInsecure: true }],
      ["r.example:5000", { ...none, authorities: ["PEM"] }],
    ],
  );
  assert.is(parseRegistrySettings("", {}).size, 0);
});

test("parseChallenges: what a server offers", () => {
  const shown = (header: string | undefined) =>
    parseChallenges(header).map(({ scheme, parameters }) => [scheme, Object.fromEntries(parameters)]);
  for (const [header, wanted] of [
    [undefined, []],
    ["", []],
    ["Basic", [["basic", {}]]],
    ['Basic realm="a, b=c \\" d"', [["basic", { realm: 'a, b=c " d' }]]],
    [
      'Bearer realm="https://auth.example/token",service="r.example" , scope="repository:a/b:pull,push"',
      [["bearer", { realm: "https://auth.example/token", service: "r.example", scope: "repository:a/b:pull,push" }]],
    ],
    [
      "bearer REALM=x, Basic realm=y",
      [
        ["bearer", { realm: "x" }],
        ["basic", { realm: "y" }],
      ],
    ],
    ['realm="x"', []],
  ] as const) {
    assert.equal(shown(header), wanted, header);
  }
});

test("inRanges: however an address is written", () => {
  const isMetadata = inRanges(metadataRanges);
  for (const address of ["169.254.169.254", "::ffff:169.254.0.1", "64:ff9b::a9fe:a9fe", "fe80::1", "100.100.100.200"])
    assert.ok(isMetadata(address), address);
  for (const address of ["169.253.0.1", "10.0.0.1", "127.0.0.1", "::1", "2001:db8::1"])
    assert.not.ok(isMetadata(address), address);
});

test.run();
