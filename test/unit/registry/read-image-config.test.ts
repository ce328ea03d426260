// @runtimes node
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  type ImageConfig,
  type ReadImageConfigOptions,
  readImageConfig,
} from "../../../operator/registry/read-image-config.ts";
import { RegistryError, type RegistryProblem } from "../../../operator/registry/registry-error.ts";
import { parseRegistrySettings } from "../../../operator/registry/registry-settings.ts";
import { openAuthority } from "../../../scripts/cluster/pki/authority.ts";
import { errorOf } from "../../error-of.ts";
import { manualClock } from "../manual-clock.ts";
import {
  type Answer,
  digestOf,
  imageOf,
  type SeenRequest,
  serving,
  startServer,
  type TestServer,
} from "./test-registry.ts";

const test = suite("the configuration of an image, from its registry");
const running: TestServer[] = [];

async function start(...given: Parameters<typeof startServer>): Promise<TestServer> {
  const server = await startServer(...given);
  running.push(server);
  return server;
}

test.after.each(async () => {
  for (const server of running.splice(0)) await server.stop();
});

const signal = new AbortController().signal;
/** All servers of this test are at loopback addresses, which a registry may not name. */
const read = (ref: string, more: Partial<ReadImageConfigOptions> = {}): Promise<ImageConfig> =>
  readImageConfig({ ref, architecture: "amd64", closed: [], signal, ...more });

async function problemOf(attempt: Promise<unknown>): Promise<[reason: RegistryProblem, message: string]> {
  const error = await errorOf(attempt);
  if (!(error instanceof RegistryError)) throw error ?? new Error("it was read");
  return [error.reason, error.message];
}

const login = (host: string, user: string): string =>
  JSON.stringify({ auths: { [host]: { auth: Buffer.from(`${user}:secret`).toString("base64") } } });
const basic = (user: string): string => `Basic ${Buffer.from(`${user}:secret`).toString("base64")}`;

const web = imageOf({ Entrypoint: ["/bin/web"], Cmd: ["--port", "80"], User: "1000", WorkingDir: "/srv" });
const program = { command: ["/bin/web"], args: ["--port", "80"] };
const platform = (architecture: string, variant?: string) => ({
  os: "linux",
  architecture,
  ...(variant && { variant }),
});
const indexOf = (...manifests: object[]): string => JSON.stringify({ schemaVersion: 2, manifests });

test("of a manifest by its tag, with the digest of what was read", async () => {
  const { host, requests } = await start(serving({ "1.2": web.manifest, latest: web.manifest }, web));
  assert.equal(await read(`${host}/team/web:1.2`), { digest: web.digest, ...program });
  assert.equal(await read(`${host}/team/web`), { digest: web.digest, ...program });
  assert.equal(
    requests.map(({ path }) => path),
    ["manifests/1.2", "manifests/latest"].flatMap((path) => [
      `/v2/team/web/${path}`,
      `/v2/team/web/blobs/${digestOf(web.config)}`,
    ]),
  );
  for (const type of ["oci.image.index.v1", "docker.distribution.manifest.list.v2", "oci.image.manifest.v1"])
    assert.match(requests[0]?.accept ?? "", `application/vnd.${type}+json`);
  assert.match(requests[0]?.accept ?? "", "application/vnd.docker.distribution.manifest.v2+json");
});

test("of what an image may say of its program", async () => {
  for (const [config, command, args] of [
    [{ Entrypoint: ["/a"] }, ["/a"], []],
    [{ Cmd: ["sh", "-c", "echo 'ä' $X"] }, [], ["sh", "-c", "echo 'ä' $X"]],
    [{ Entrypoint: null, Cmd: null }, [], []],
    [{}, [], []],
    [null, [], []],
    [undefined, [], []],
  ] as const) {
    const image = imageOf(config);
    const { host } = await start(serving({ a: image.manifest }, image));
    assert.equal(await read(`${host}/x:a`), { digest: image.digest, command, args }, JSON.stringify(config));
  }
});

test("of an index, what a node of the architecture takes; the digest is the index's", async () => {
  const [amd, arm, other] = ["amd", "arm", "other"].map((name) => imageOf({ Cmd: [name] }));
  assert.ok(amd && arm && other);
  const attestation = { digest: other.digest, platform: { os: "unknown", architecture: "unknown" } };
  const nested = indexOf({ digest: arm.digest, platform: platform("arm64") });
  const missing = ["ImageNotFound", "the image has no linux/amd64"];
  for (const [name, index, forAmd, forArm] of [
    [
      "one of each",
      indexOf(
        attestation,
        { digest: arm.digest, platform: platform("arm64", "v8") },
        { digest: amd.digest, platform: platform("amd64") },
      ),
      ["amd"],
      ["arm"],
    ],
    [
      "a variant that not every machine runs",
      indexOf(
        { digest: other.digest, platform: platform("amd64", "v3") },
        { digest: amd.digest, platform: platform("amd64") },
      ),
      ["amd"],
      ["ImageNotFound", "the image has no linux/arm64"],
    ],
    ["an index in an index", indexOf({ digest: digestOf(nested), platform: platform("arm64") }), missing, ["arm"]],
    ["one that names no platform", indexOf({ digest: amd.digest }), ["amd"], ["amd"]],
    ["another system", indexOf({ digest: amd.digest, platform: { os: "windows", architecture: "amd64" } }), missing],
    ["nothing", indexOf(), missing],
  ] as const) {
    const { host } = await start(serving({ a: index }, amd, arm, other, nested));
    for (const [architecture, wanted] of [
      ["amd64", forAmd],
      ["arm64", forArm],
    ] as const) {
      if (wanted === undefined) continue;
      const found = await read(`${host}/x:a`, { architecture }).catch((error: unknown) => error);
      if (found instanceof RegistryError) assert.equal([found.reason, found.message], wanted, name);
      else assert.equal(found, { digest: digestOf(index), command: [], args: wanted }, name);
    }
  }
});

test("by a digest, which decides beside a tag, and which the answer has to match", async () => {
  const { host, requests } = await start(serving({ a: "not this" }, web));
  assert.equal(await read(`${host}/x:a@${web.digest}`), { digest: web.digest, ...program });
  assert.is(requests[0]?.path, `/v2/x/manifests/${web.digest}`);
  const wrong = await start(() => ({ body: web.manifest }));
  const asked = digestOf("another");
  assert.equal(await problemOf(read(`${wrong.host}/x@${asked}`)), [
    "ImageUnreadable",
    `the registry sends ${web.digest} in place of ${asked}`,
  ]);
  assert.match(String(await problemOf(read(`${host}/x@sha512:${"ab".repeat(64)}`))), "must be sha256");
});

test("nothing is taken that does not match its digest: a manifest of an index, a configuration", async () => {
  const other = imageOf({ Cmd: ["evil"] });
  const index = indexOf({ digest: web.digest, platform: platform("amd64") });
  const swapped =
    (of: string, by: string) =>
    (path: string): Answer | undefined =>
      path.endsWith(digestOf(of)) ? { body: by } : serving({ a: index }, web, other)(path);
  for (const [handler, what] of [
    [swapped(web.manifest, other.manifest), other.digest],
    [swapped(web.config, other.config), digestOf(other.config)],
  ] as const) {
    const { host } = await start(handler);
    const [reason, message] = await problemOf(read(`${host}/x:a`));
    assert.is(reason, "ImageUnreadable");
    assert.match(message, `the registry sends ${what} in place of`);
  }
});

test("answers that cannot be used, by their reason", async () => {
  const manifestOf = (config: string) => JSON.stringify({ config: { digest: digestOf(config) } });
  const tooLong = imageOf({ Cmd: ["a".repeat(65 * 1024)] });
  const tooMany = imageOf({ Cmd: Array(257).fill("a") });
  const nul = imageOf({ Cmd: ["a\0b"] });
  const bigConfig = JSON.stringify({ config: {}, history: " ".repeat(1024 * 1024) });
  const loop = indexOf({ digest: web.digest, platform: platform("amd64") });
  for (const [what, handler, reason, message] of [
    ["status 500", () => ({ status: 500 }), "RegistryUnreachable", /answers 500/],
    ["status 429", () => ({ status: 429 }), "RegistryUnreachable", /answers 429/],
    ["status 404", () => undefined, "ImageNotFound", /has no x, manifests\/a/],
    ["status 403", () => ({ status: 403 }), "RegistryUnauthorized", /asks for another login/],
    ["status 418", () => ({ status: 418 }), "ImageUnreadable", /answers 418/],
    ["no JSON", () => ({ body: "<html>" }), "ImageUnreadable", /the manifest cannot be read/],
    ["JSON that is deep", () => ({ body: "[".repeat(100) }), "ImageUnreadable", /the manifest cannot be read/],
    ["neither index nor manifest", () => ({ body: "{}" }), "ImageUnreadable", /the manifest cannot be read/],
    [
      "both",
      () => ({ body: JSON.stringify({ ...JSON.parse(web.manifest), ...JSON.parse(loop) }) }),
      "ImageUnreadable",
      /the manifest cannot be read/,
    ],
    [
      "a manifest that is too large",
      () => ({ body: " ".repeat(4 * 1024 * 1024 + 1) }),
      "ImageUnreadable",
      /larger than 4194304 bytes/,
    ],
    [
      "a configuration that is too large",
      serving({ a: manifestOf(bigConfig) }, bigConfig),
      "ImageUnreadable",
      /larger than 1048576 bytes/,
    ],
    ["a command that is too long", serving({ a: tooLong.manifest }, tooLong), "ImageUnreadable", /longer than 65536/],
    ["too many words", serving({ a: tooMany.manifest }, tooMany), "ImageUnreadable", /configuration cannot be read/],
    ["a word with a NUL", serving({ a: nul.manifest }, nul), "ImageUnreadable", /configuration cannot be read/],
  ] as const) {
    const { host } = await start(handler as (path: string) => Answer | undefined);
    const [found, said] = await problemOf(read(`${host}/x:a`));
    assert.is(found, reason, what);
    assert.match(said, message, what);
  }
});

test("indexes that are nested too deep", async () => {
  let index = indexOf({ digest: web.digest, platform: platform("amd64") });
  const all = [index];
  for (let level = 0; level < 4; level += 1) {
    index = indexOf({ digest: digestOf(index), platform: platform("amd64") });
    all.push(index);
  }
  const { host } = await start(serving({ a: index }, web, ...all));
  assert.match(String(await problemOf(read(`${host}/x:a`))), /nested more than 4 levels deep/);
});

test("a registry that never answers, and one that is not there", async () => {
  const clock = manualClock();
  const { host, requests, stop } = await start(() => "hang");
  const late = problemOf(read(`${host}/x:a`, { clock, limitMs: 20_000 }));
  while (requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await clock.runWhenNextIs(20_000);
  assert.equal(await late, ["RegistryUnreachable", `${host} did not answer within 20 s`]);

  const abort = new AbortController();
  const aborted = errorOf(read(`${host}/x:a`, { signal: abort.signal }));
  while (requests.length === 1) await new Promise((resolve) => setImmediate(resolve));
  const reason = new Error("the operator stops");
  abort.abort(reason);
  assert.is(await aborted, reason);
  await stop();
  running.splice(0);
  assert.is((await problemOf(read(`${host}/x:a`)))[0], "RegistryUnreachable");
});

/** A registry that takes the token alone, and its token service. */
async function withTokens({ users = [] as string[], more = {} as { realm?: (own: string) => string } } = {}) {
  const service: TestServer = await start(
    (path, { authorization }) => {
      const isAnyone = users.length === 0 && authorization === undefined;
      if (!isAnyone && !users.some((user) => authorization === basic(user))) return { status: 401 };
      return path.startsWith("/token?") ? { body: JSON.stringify({ token: "of-the-service" }) } : undefined;
    },
    { address: "127.0.0.2" },
  );
  const realm = more.realm?.(service.host) ?? `http://${service.host}/token`;
  const content = serving({ a: web.manifest }, web);
  const registry: TestServer = await start((path, { authorization }) =>
    authorization === "Bearer of-the-service"
      ? content(path)
      : {
          status: 401,
          headers: {
            "www-authenticate": `Bearer realm="${realm}",service="registry.example",scope="repository:team/x:pull"`,
          },
        },
  );
  return { service, registry };
}

test("a token: for everyone without a login, for those that the service knows with one", async () => {
  const open = await withTokens();
  assert.equal(await read(`${open.registry.host}/team/x:a`), { digest: web.digest, ...program });
  assert.equal(
    open.service.requests.map(({ path, authorization }) => [path, authorization]),
    [["/token?service=registry.example&scope=repository%3Ateam%2Fx%3Apull", undefined]],
  );
  assert.equal(
    open.registry.requests.map(({ authorization }) => authorization),
    [undefined, "Bearer of-the-service", "Bearer of-the-service"],
  );

  const closed = await withTokens({ users: ["second"] });
  const { host } = closed.registry;
  assert.is((await problemOf(read(`${host}/team/x:a`)))[0], "RegistryUnauthorized");
  const logins = [login(host, "first"), login("elsewhere.example", "third"), login(host, "second")];
  closed.service.requests.splice(0);
  assert.equal(await read(`${host}/team/x:a`, { logins }), { digest: web.digest, ...program });
  assert.equal(
    closed.service.requests.map(({ authorization }) => authorization),
    [basic("first"), basic("second")],
  );
  // The registry itself never sees a password.
  assert.ok(!closed.registry.requests.some(({ authorization }) => authorization?.startsWith("Basic")));
});

test("a token service that a login is not sent to", async () => {
  const thief = await start(() => ({ body: JSON.stringify({ token: "t" }) }), { address: "127.0.0.3" });
  for (const [realm, message, more] of [
    ["nowhere", /names no token service/],
    ["http://169.254.169.254/latest", /169.254.169.254 is at an address that the operator never asks/],
    ["http://[::ffff:169.254.169.254]/latest", /is at an address that the operator never asks/],
    ["http://2852039166/latest", /169.254.169.254 is at an address that the operator never asks/],
    ["http://127.0.0.2/token", /127.0.0.2 is at an address/, { closed: ["127.0.0.0/8"] }],
    ["http://localhost/token", /localhost is at an address/, { closed: ["127.0.0.0/8", "::/127"] }],
    ["file:///etc/passwd", /which is not HTTPS/],
  ] as const) {
    const { registry } = await withTokens({ more: { realm: () => realm } });
    const logins = [login(registry.host, "a")];
    const [, said] = await problemOf(read(`${registry.host}/team/x:a`, { logins, ...more }));
    assert.match(said, message, realm);
  }
  const moved = await start(() => ({ status: 307, headers: { location: `http://${thief.host}/token` } }), {
    address: "127.0.0.2",
  });
  const { registry } = await withTokens({ more: { realm: () => `http://${moved.host}/token` } });
  const logins = [login(registry.host, "a")];
  assert.match(String(await problemOf(read(`${registry.host}/team/x:a`, { logins }))), /token service .* answers 307/);
  assert.equal(thief.requests, []);
});

test("a password, where the registry asks for that; no redirect takes it along", async () => {
  const content = serving({ a: web.manifest }, web);
  const store = await start(() => ({ body: web.config }), { address: "127.0.0.2" });
  const server = await start((path, { authorization }) => {
    if (authorization !== basic("me")) return { status: 401, headers: { "www-authenticate": 'Basic realm="r"' } };
    if (!path.includes("/blobs/")) return content(path);
    return { status: 307, headers: { location: `http://${store.host}/blob?signature=1` } };
  });
  assert.is((await problemOf(read(`${server.host}/x:a`)))[0], "RegistryUnauthorized");
  assert.is(
    (await problemOf(read(`${server.host}/x:a`, { logins: [login(server.host, "you")] })))[0],
    "RegistryUnauthorized",
  );
  assert.equal(await read(`${server.host}/x:a`, { logins: [login(server.host, "me")] }), {
    digest: web.digest,
    ...program,
  });
  assert.equal(
    store.requests.map(({ path, authorization }: SeenRequest) => [path, authorization]),
    [["/blob?signature=1", undefined]],
  );
});

test("redirects that are not followed", async () => {
  const asking = await start(() => ({ status: 401, headers: { "www-authenticate": 'Basic realm="r"' } }), {
    address: "127.0.0.2",
  });
  for (const [location, message, more] of [
    ["http://169.254.169.254/latest/meta-data", /an address that the operator never asks/],
    ["http://127.0.0.2/", /an address that the operator never asks/, { closed: ["127.0.0.0/8"] }],
    ["http://[", /cannot be read/],
    ["/again", /redirects more than 5 times/],
    [`http://${asking.host}/`, /asks for another login/],
  ] as const) {
    const { host } = await start(() => ({ status: 302, headers: { location } }));
    const [, said] = await problemOf(read(`${host}/x:a`, { logins: [login(host, "me")], ...more }));
    assert.match(said, message, location);
  }
  assert.equal(
    asking.requests.map(({ authorization }) => authorization),
    [undefined],
  );
});

test("over TLS: with an authority of the settings, and never on to plain HTTP", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-registry-"));
  try {
    const authority = await openAuthority(folder);
    const { certificate: cert, key } = await authority.issue({
      ...{ fileName: "server", commonName: "registry", alternativeNames: ["127.0.0.1"], purpose: "server" },
    });
    const plain = await start(() => ({ body: web.config }), { address: "127.0.0.2" });
    let location: string | undefined;
    const content = serving({ a: web.manifest }, web);
    const { host } = await start(
      (path) =>
        location !== undefined && path.includes("/blobs/") ? { status: 307, headers: { location } } : content(path),
      { tls: { key, cert } },
    );
    const settings = (lines: string) =>
      parseRegistrySettings(`[registry."${host}"]\n${lines}\n`, { "ca.crt": authority.certificate });
    const trusting = settings('  ca = ["/config/ca.crt"]');
    assert.equal(await read(`${host}/x:a`, { settings: trusting }), { digest: web.digest, ...program });
    assert.equal(await read(`${host}/x:a`, { settings: settings("  insecure = true") }), {
      digest: web.digest,
      ...program,
    });
    assert.is((await problemOf(read(`${host}/x:a`, { settings: settings("") })))[0], "RegistryUnreachable");
    location = `http://${plain.host}/blob`;
    assert.match(String(await problemOf(read(`${host}/x:a`, { settings: trusting }))), /which is not HTTPS/);
    assert.equal(plain.requests, []);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("from a mirror first, with the mirror's login; then from the registry itself", async () => {
  const mirrored = imageOf({ Cmd: ["mirrored"] });
  const mirror = await start((path, { authorization }) =>
    authorization === basic("mirror")
      ? serving({ a: mirrored.manifest }, mirrored)(path.replace("/hub/", "/"))
      : { status: 401, headers: { "www-authenticate": "Basic realm=r" } },
  );
  const own = await start(serving({ a: web.manifest, b: web.manifest }, web), { address: "127.0.0.2" });
  const settings = parseRegistrySettings(
    `[registry."${own.host}"]\n  http = true\n  mirrors = ["${mirror.host}/hub"]\n`,
    {},
  );
  const logins = [login(mirror.host, "mirror"), login(own.host, "own")];
  assert.equal((await read(`${own.host}/x:a`, { settings, logins })).args, ["mirrored"]);
  assert.is(mirror.requests[0]?.path, "/v2/hub/x/manifests/a");
  assert.equal(own.requests, []);
  assert.equal((await read(`${own.host}/x:b`, { settings, logins })).command, ["/bin/web"]);
  const [reason, message] = await problemOf(read(`${own.host}/x:c`, { settings, logins }));
  assert.is(reason, "ImageNotFound");
  assert.match(message, `${mirror.host} has no hub/x, manifests/c; ${own.host} has no x, manifests/c`);
});

test.run();
