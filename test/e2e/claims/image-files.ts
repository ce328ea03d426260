import { createHash } from "node:crypto";
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

const ARCHITECTURES: Record<string, string> = { x64: "amd64", arm64: "arm64" };

interface Parts {
  layer: Buffer;
  config: Buffer;
}

/** Of an image that answers every request on port 8080 with a text, made by the system's tar. */
async function parts(folder: string, { busybox, text }: { busybox: string; text: string }): Promise<Parts> {
  const root = join(folder, "root");
  for (const path of ["bin", "www"]) mkdirSync(join(root, path), { recursive: true });
  cpSync(busybox, join(root, "bin/busybox"), { dereference: true });
  chmodSync(join(root, "bin/busybox"), 0o755);
  symlinkSync("busybox", join(root, "bin/sh"));
  writeFileSync(join(root, "www/index.html"), text);
  await runCommand("tar", ["--owner=0", "--group=0", "-cf", join(folder, "layer.tar"), "-C", root, "."]);
  const layer = readFileSync(join(folder, "layer.tar"));
  const config = {
    architecture: ARCHITECTURES[process.arch],
    os: "linux",
    config: { Cmd: ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"], User: "1000" },
    rootfs: { type: "layers", diff_ids: [`sha256:${sha256(layer)}`] },
  };
  return { layer, config: Buffer.from(JSON.stringify(config)) };
}

/** Writes what `docker save` writes, into `folder`, and returns its path. */
export async function dockerArchive(
  folder: string,
  options: { busybox: string; text: string; name: string },
): Promise<string> {
  const { config } = await parts(folder, options);
  writeFileSync(join(folder, "config.json"), config);
  const manifest = [{ Config: "config.json", RepoTags: [options.name], Layers: ["layer.tar"] }];
  writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest));
  const archive = join(folder, "image.tar");
  await runCommand("tar", ["-cf", archive, "-C", folder, "manifest.json", "config.json", "layer.tar"]);
  return archive;
}

/** Writes an OCI layout without a name into `folder`, and returns the digest of its manifest. */
export async function ociLayout(folder: string, options: { busybox: string; text: string }): Promise<string> {
  const work = `${folder}-work`;
  mkdirSync(work);
  const { layer, config } = await parts(work, options);
  mkdirSync(join(folder, "blobs/sha256"), { recursive: true });
  const put = (kind: string, content: Buffer) => {
    const digest = sha256(content);
    writeFileSync(join(folder, "blobs/sha256", digest), content);
    return { mediaType: `application/vnd.oci.image.${kind}`, digest: `sha256:${digest}`, size: content.length };
  };
  const manifest = put(
    "manifest.v1+json",
    Buffer.from(
      JSON.stringify({ schemaVersion: 2, config: put("config.v1+json", config), layers: [put("layer.v1.tar", layer)] }),
    ),
  );
  writeFileSync(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  writeFileSync(join(folder, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [manifest] }));
  return manifest.digest;
}

function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
