import { createHash } from "node:crypto";
import { list } from "tar";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { type Image, imageArchive, imageDigest } from "../../../scripts/cluster/images/image-archive.ts";
import { localImages } from "../../../scripts/cluster/images/local-images.ts";
import { tarArchive } from "../../../scripts/cluster/images/tar-archive.ts";

interface Entry {
  readonly path: string;
  readonly type: string;
  readonly mode: number;
  readonly linkTo: string;
  readonly content: Buffer;
}

function read(archive: Buffer): Map<string, Entry> {
  const entries = new Map<string, Entry>();
  const parser = list({
    sync: true,
    strict: true,
    onReadEntry(entry) {
      const chunks: Buffer[] = [];
      entry.on("data", (chunk: Buffer) => chunks.push(chunk));
      entry.on("end", () => {
        const { path, type, mode = 0, linkpath = "" } = entry;
        entries.set(path, { path, type, mode, linkTo: linkpath, content: Buffer.concat(chunks) });
      });
    },
  });
  parser.end(archive);
  return entries;
}

function json(entries: Map<string, Entry>, path: string): Record<string, unknown> {
  const entry = entries.get(path);
  assert.ok(entry, `${path} is missing`);
  return JSON.parse(entry.content.toString("utf8")) as Record<string, unknown>;
}

const image: Image = {
  name: "localhost/some:1",
  files: [{ path: "bin" }, { path: "bin/tool", content: Buffer.from("x"), mode: 0o755 }],
  entrypoint: ["/bin/tool"],
  command: ["--help"],
  user: "65532:65532",
  ports: [8080],
};

test("tarArchive keeps types, modes, owners and contents of any length", () => {
  const contents = [0, 1, 511, 512, 513].map((length) => Buffer.alloc(length, 7));
  const entries = read(
    tarArchive([
      { path: "folder", mode: 0o1777 },
      { path: "link", linkTo: "folder" },
      ...contents.map((content, index) => ({ path: `folder/${index}`, content, mode: 0o640 })),
    ]),
  );
  assert.is(entries.get("folder/")?.type, "Directory");
  assert.is(entries.get("folder/")?.mode, 0o1777);
  assert.is(entries.get("link")?.linkTo, "folder");
  contents.forEach((content, index) => {
    assert.is(entries.get(`folder/${index}`)?.mode, 0o640);
    assert.ok(entries.get(`folder/${index}`)?.content.equals(content));
  });
});

test("tarArchive gives a program capabilities, as setcap would, and nothing else", () => {
  const archive = tarArchive([
    { path: "plain", content: Buffer.from("p") },
    { path: "mapper", content: Buffer.from("m"), mode: 0o755, capabilities: [7, 33] },
  ]);
  assert.is(read(archive).get("mapper")?.content.toString(), "m");
  const name = "SCHILY.xattr.security.capability=";
  const at = archive.indexOf(name);
  assert.is(archive.lastIndexOf(name), at);
  assert.ok(archive.indexOf("plain") < at && at < archive.indexOf("mapper"));
  // linux/capability.h: revision 2 with the effective bit, then permitted and inheritable of each half.
  const value = Buffer.from("01000002800000000000000002000000" + "00000000", "hex");
  assert.equal(archive.subarray(at + name.length, at + name.length + value.length), value);
  const length = name.length + value.length + "57 \n".length;
  assert.is(archive.subarray(at - 3, at).toString(), `${length} `);
  assert.is(archive[at - 3 + length - 1], "\n".charCodeAt(0));
});

test("tarArchive refuses a name that the format has no room for", () => {
  assert.throws(() => tarArchive([{ path: "a".repeat(100) }]), /longer than 99 bytes/);
});

test("imageArchive is an OCI layout whose every digest is that of its content", () => {
  const entries = read(imageArchive([image]));
  assert.equal(json(entries, "oci-layout"), { imageLayoutVersion: "1.0.0" });
  for (const [path, { content, type }] of entries) {
    if (!path.startsWith("blobs/sha256/") || type !== "File") continue;
    assert.is(path, `blobs/sha256/${createHash("sha256").update(content).digest("hex")}`);
  }
  const [manifest] = json(entries, "index.json").manifests as { digest: string; annotations: Record<string, string> }[];
  assert.is(manifest?.annotations["io.containerd.image.name"], "localhost/some:1");
  assert.is(manifest?.digest, imageDigest(image));
  const { config, layers } = json(entries, `blobs/sha256/${manifest?.digest.slice(7)}`) as {
    config: { digest: string };
    layers: { digest: string; size: number }[];
  };
  const settings = json(entries, `blobs/sha256/${config.digest.slice(7)}`);
  assert.equal(settings.rootfs, { type: "layers", diff_ids: [layers[0]?.digest] });
  assert.equal(settings.config, {
    Env: ["PATH=/bin:/usr/bin"],
    Entrypoint: ["/bin/tool"],
    Cmd: ["--help"],
    User: "65532:65532",
    ExposedPorts: { "8080/tcp": {} },
  });
});

test("imageArchive holds a layer once that two images share", () => {
  const other = { ...image, name: "localhost/other:1", command: ["--version"] };
  const blobs = [...read(imageArchive([image, other])).keys()].filter((path) => /^blobs\/sha256\/./.test(path));
  assert.is(blobs.length, 5);
});

test("imageArchive has the base as a layer below, and labels in both places", () => {
  const labels = { "org.opencontainers.image.version": "1.0.0" };
  const created = "2026-01-02T03:04:05.000Z";
  const above = { ...image, base: [{ path: "lib" }], labels, created };
  const entries = read(imageArchive([above]));
  const blob = (digest: string) => json(entries, `blobs/sha256/${digest.slice(7)}`);
  const manifest = blob(imageDigest(above)) as {
    config: { digest: string };
    layers: { digest: string }[];
    annotations: unknown;
  };
  const settings = blob(manifest.config.digest) as { rootfs: { diff_ids: string[] }; config: { Labels: unknown } };
  const layers = manifest.layers.map(({ digest }) => digest);
  assert.equal(settings.rootfs.diff_ids, layers);
  const contents = layers.map((digest) => entries.get(`blobs/sha256/${digest.slice(7)}`)?.content ?? Buffer.alloc(0));
  assert.equal(
    contents.map((content) => [...read(content).keys()]),
    [["lib/"], ["bin/", "bin/tool"]],
  );
  assert.equal([manifest.annotations, settings.config.Labels], [labels, labels]);
  assert.match(JSON.stringify(settings), created);
});

test("imageDigest is the same for the same image and another for another", () => {
  assert.is(imageDigest(image), imageDigest({ ...image }));
  assert.is.not(imageDigest(image), imageDigest({ ...image, user: "0" }));
});

test("localImages sets a user that is not root, except where root is the point", () => {
  const users = new Map(localImages([]).map(({ name, user }) => [name, user]));
  assert.is(users.get("localhost/tenancy-hello:1"), "65532:65532");
  assert.is(users.get("localhost/tenancy-hello-root:1"), undefined);
});

test.run();
