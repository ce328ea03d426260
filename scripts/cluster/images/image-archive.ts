import { createHash } from "node:crypto";
import { type TarEntry, tarArchive } from "./tar-archive.ts";

/** An image of one layer. */
export interface Image {
  /** Such as `localhost/tenancy-hello:1`. */
  readonly name: string;
  readonly files: readonly TarEntry[];
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  /** Such as `65532:65532`. @default root */
  readonly user?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly workingFolder?: string;
  readonly ports?: readonly number[];
}

/** What a registry keeps of an image; the manifest names the others. */
export interface ImageBlobs {
  readonly manifest: Blob;
  readonly config: Blob;
  readonly layer: Blob;
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };
const OCI = "application/vnd.oci.image";

/** A piece of content under its digest. */
interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly content: Buffer;
}

/** Returns the digest that a container runtime gives the image: that of its manifest. */
export function imageDigest(image: Image): string {
  return imageBlobs(image).manifest.digest;
}

/** Returns an archive in the OCI image layout that `ctr images import` takes, with any number of images in it. */
export function imageArchive(images: readonly Image[]): Buffer {
  const blobs = new Map<string, Buffer>();
  const manifests = images.map((image) => {
    const { manifest, config, layer } = imageBlobs(image);
    for (const { digest, content } of [manifest, config, layer]) blobs.set(digest, content);
    const annotations = { "io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name };
    return { ...descriptor(manifest), annotations };
  });
  const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
  return tarArchive([
    { path: "oci-layout", content: json({ imageLayoutVersion: "1.0.0" }) },
    { path: "index.json", content: json({ schemaVersion: 2, manifests }) },
    { path: "blobs" },
    { path: "blobs/sha256" },
    ...[...blobs].map(([digest, content]) => ({ path: `blobs/sha256/${digest.slice("sha256:".length)}`, content })),
  ]);
}

/** Returns the blobs of an image. */
export function imageBlobs(image: Image): ImageBlobs {
  const layer = blob(`${OCI}.layer.v1.tar`, tarArchive(image.files));
  const { entrypoint, command, user, workingFolder } = image;
  const config = blob(
    `${OCI}.config.v1+json`,
    Buffer.from(
      JSON.stringify({
        architecture: ARCHITECTURES[process.arch] ?? process.arch,
        os: "linux",
        config: {
          Env: Object.entries({ PATH: "/bin:/usr/bin", ...image.environment }).map(([key, value]) => `${key}=${value}`),
          ...(entrypoint && { Entrypoint: entrypoint }),
          ...(command && { Cmd: command }),
          ...(user !== undefined && { User: user }),
          ...(workingFolder !== undefined && { WorkingDir: workingFolder }),
          ...(image.ports && { ExposedPorts: Object.fromEntries(image.ports.map((port) => [`${port}/tcp`, {}])) }),
        },
        rootfs: { type: "layers", diff_ids: [layer.digest] },
      }),
    ),
  );
  const manifest = blob(
    `${OCI}.manifest.v1+json`,
    Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: `${OCI}.manifest.v1+json`,
        config: descriptor(config),
        layers: [descriptor(layer)],
      }),
    ),
  );
  return { manifest, config, layer };
}

function blob(mediaType: string, content: Buffer): Blob {
  const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
  return { mediaType, digest, size: content.length, content };
}

function descriptor({ mediaType, digest, size }: Blob): Omit<Blob, "content"> {
  return { mediaType, digest, size };
}
