import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Workload } from "../../../crds/workload.ts";
import { renderBuildJob } from "../../../operator/builds/render-build.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";
import { BUILD_NAMESPACE, BUILDKIT_CONFIG, buildkitToml } from "../../../scripts/cluster/builds/ensure-builds.ts";
import { pushImages } from "../../../scripts/cluster/builds/push-images.ts";
import { hostsToml } from "../../../scripts/cluster/builds/registry.ts";
import { assembleBuilder } from "../../../scripts/cluster/images/builder-image.ts";
import { type Image, imageDigest } from "../../../scripts/cluster/images/image-archive.ts";

const ADDRESS = "10.231.3.1:20036";

test("buildkitToml looks for each host's images in the registry, but for those that were built", () => {
  assert.is(
    buildkitToml(ADDRESS, ["localhost", "built", "docker.io", "localhost"]),
    [
      `[registry."docker.io"]`,
      `  mirrors = ["${ADDRESS}/docker.io"]`,
      `[registry."localhost"]`,
      `  mirrors = ["${ADDRESS}/localhost"]`,
      `[registry."${ADDRESS}"]`,
      `  http = true`,
      "",
    ].join("\n"),
  );
});

test("the operator's builds mount what is written for them", () => {
  const builds = operatorConfig({ TENANCY_REGISTRY: `${ADDRESS}/built` }).builds as BuildConfig;
  assert.is(builds.namespace, BUILD_NAMESPACE);
  const workload = { metadata: { name: "app" }, spec: { image: { dockerfile: "Dockerfile" } } } as Workload;
  const job = renderBuildJob(workload, { key: "0".repeat(64), tries: 0 }, builds);
  const maps = job.spec.template.spec?.volumes?.flatMap(({ configMap }) => configMap?.name ?? []);
  assert.equal(maps, [BUILDKIT_CONFIG]);
});

test("hostsToml has containerd ask by plain HTTP, and only to pull", () => {
  assert.match(hostsToml(ADDRESS), `[host."http://${ADDRESS}"]\n  capabilities = ["pull", "resolve"]\n`);
});

/** A registry of blobs and manifests in memory, as far as a push needs one. */
async function withRegistry(
  work: (address: string, stored: Map<string, Buffer>, asked: string[]) => Promise<void>,
): Promise<void> {
  const stored = new Map<string, Buffer>();
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const content = Buffer.concat(chunks);
    const { pathname, searchParams } = new URL(request.url ?? "", "http://registry");
    asked.push(`${request.method} ${pathname}`);
    const answer = (status: number, headers = {}) => response.writeHead(status, headers).end();
    if (pathname.includes("/refused/")) return answer(401);
    if (request.method === "HEAD") return answer(stored.has(pathname) ? 200 : 404);
    if (request.method === "POST") return answer(202, { location: `${pathname}one?state=kept` });
    const digest = searchParams.get("digest");
    if (digest !== null) {
      if (digest !== `sha256:${createHash("sha256").update(content).digest("hex")}`) return answer(400);
      if (searchParams.get("state") !== "kept") return answer(404);
      stored.set(pathname.replace("uploads/one", digest), content);
      return answer(201);
    }
    stored.set(pathname, content);
    answer(request.headers["content-type"] === "application/vnd.oci.image.manifest.v1+json" ? 201 : 415);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`127.0.0.1:${(server.address() as AddressInfo).port}`, stored, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const image: Image = {
  name: "localhost/some:1",
  base: [{ path: "lib" }],
  files: [{ path: "tool", content: Buffer.from("x") }],
  command: ["/tool"],
};

test("pushImages stores an image whole, and of a second one only what is missing", () =>
  withRegistry(async (address, stored, asked) => {
    await pushImages(address, [image]);
    const manifest = stored.get("/v2/localhost/some/manifests/1") ?? Buffer.alloc(0);
    assert.is(`sha256:${createHash("sha256").update(manifest).digest("hex")}`, imageDigest(image));
    const { config, layers } = JSON.parse(manifest.toString("utf8")) as {
      config: { digest: string };
      layers: { digest: string }[];
    };
    for (const { digest } of [config, ...layers]) assert.ok(stored.has(`/v2/localhost/some/blobs/${digest}`));
    asked.length = 0;
    await pushImages(address, [{ ...image, command: ["/tool", "again"] }]);
    assert.is(asked.filter((line) => line.startsWith("POST")).length, 1);
  }));

test("pushImages says what the registry answers that refuses", () =>
  withRegistry(async (address) => {
    await pushImages(address, [{ ...image, name: "localhost/refused:1" }]).then(
      () => assert.unreachable(),
      (error: Error) => assert.match(error.message, /^Cannot HEAD http:.*: 401/),
    );
  }));

test("assembleBuilder gives newuidmap and newgidmap the capability that each needs, and the user its subordinate ids", async () => {
  let given: string[] = [];
  const { files, user } = await assembleBuilder({
    busybox: [{ path: "bin/busybox" }, { path: "etc/passwd", content: Buffer.from("another") }, { path: "tmp" }],
    async programs(base) {
      given = base.map(({ path }) => path);
      return ["usr/bin/newuidmap", "usr/bin/newgidmap", "usr/sbin/runc"].map((path) => ({ path, mode: 0o755 }));
    },
    authorities: Buffer.from("certificates"),
    buildkit: [{ path: "usr/bin/buildkitd", mode: 0o755 }],
  });
  assert.is(user, "1000:1000");
  const entries = new Map(files.map((entry) => [entry.path, entry]));
  assert.is(entries.size, files.length);
  assert.equal(
    files.flatMap(({ path, capabilities = [] }) => capabilities.map((bit) => `${path} ${bit}`)),
    ["usr/bin/newuidmap 7", "usr/bin/newgidmap 6"],
  );
  for (const path of ["etc/subuid", "etc/subgid"]) {
    assert.is(String(entries.get(path)?.content), "user:100000:65536\n");
  }
  assert.match(String(entries.get("etc/passwd")?.content), /^user:x:1000:1000:/m);
  assert.is(entries.get("tmp")?.mode, 0o1777);
  assert.ok(given.includes("bin/busybox"));
});

test.run();
